package fsm

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/fsm/entry"
	"holdfast/session"
)

const million = 1_000_000

// encodedOpens returns entries of 1,000 opens each, through 5 nodes, at 10 opens a millisecond.
func encodedOpens(b *testing.B, opens int) [][]byte {
	b.Helper()
	var entries [][]byte
	for n := 0; n < opens; {
		commands := make([]session.Command, 1000)
		for i := range commands {
			n++
			c := session.OpenSession{
				Node: session.Node(n%5 + 1), MS: uint64(n / 10),
				Spec: session.Spec{Timeout: 30 * time.Second},
			}
			// The first bytes of request ids vary, as in random ids.
			binary.BigEndian.PutUint64(c.RequestID[:], uint64(n)*0x9e3779b97f4a7c15)
			c.RequestID[15] = 1
			commands[i] = c
		}
		data, err := entry.Encode(commands)
		if err != nil {
			b.Fatal(err)
		}
		entries = append(entries, data)
	}
	return entries
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func filled(b *testing.B, entries [][]byte) *replica {
	b.Helper()
	r := newReplica()
	for _, data := range entries {
		r.applyBytes(b, 1, data)
	}
	return r
}

// One iteration is a million opens, a thousand in each entry. B/session is the live heap of the State after it has
// forgotten the request ids.
func BenchmarkApplyOpen(b *testing.B) {
	entries := encodedOpens(b, million)
	var perSession float64
	for b.Loop() {
		b.StopTimer()
		before := heap()
		b.StartTimer()
		r := filled(b, entries)
		b.StopTimer()
		r.do(b, session.ForgetRequests{UpToIndex: r.next})
		perSession = float64(heap()-before) / million
		if got := r.Sessions(); got != million {
			b.Fatalf("%d sessions, want %d", got, million)
		}
		b.StartTimer()
	}
	runtime.KeepAlive(entries)
	b.ReportMetric(perSession, "B/session")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/million, "ns/session")
}

type discard struct{ n int64 }

func (d *discard) Write(p []byte) (int, error) { d.n += int64(len(p)); return len(p), nil }
func (*discard) ID() string                    { return "bench" }
func (*discard) Close() error                  { return nil }
func (*discard) Cancel() error                 { return nil }

// One iteration is a snapshot of a million sessions. stop-ns is the time during which Apply must wait.
func BenchmarkSnapshot(b *testing.B) {
	r := filled(b, encodedOpens(b, million))
	r.do(b, session.ForgetRequests{UpToIndex: r.next})
	var stop time.Duration
	var d discard
	for b.Loop() {
		start := time.Now()
		snap, err := r.Snapshot()
		stop += time.Since(start)
		if err != nil {
			b.Fatal(err)
		}
		if err := snap.Persist(&d); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(d.n / int64(b.N))
	b.ReportMetric(float64(stop.Nanoseconds())/float64(b.N), "stop-ns")
	b.ReportMetric(float64(d.n)/float64(b.N)/million, "B/session")
}

// One iteration restores a million sessions. BenchmarkScrub scrubs without pauses; a node pauses between runs.
func BenchmarkScrub(b *testing.B) {
	s := New(Config{Logger: hclog.NewNullLogger()})
	for i, data := range encodedOpens(b, million) {
		s.Apply(&raft.Log{Index: uint64(i + 1), Term: 1, Data: data})
	}
	for b.Loop() {
		if err := s.Scrub(nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/million, "ns/session")
}

func BenchmarkRestore(b *testing.B) {
	r := filled(b, encodedOpens(b, million))
	r.do(b, session.ForgetRequests{UpToIndex: r.next})
	data := r.snapshot(b)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := newReplica().Restore(io.NopCloser(bytes.NewReader(data))); err != nil {
			b.Fatal(err)
		}
	}
}

// One iteration is a move in an entry of its own, in a state of a million sessions: the cost of a resume at each
// replica.
func BenchmarkApplyMove(b *testing.B) {
	r := filled(b, encodedOpens(b, million))
	var ids []session.ID
	r.Frozen().Ascend(0, func(s session.Session) bool { ids = append(ids, s.ID); return true })
	attempt := uint64(0)
	for b.Loop() {
		attempt++
		r.do(b, session.MoveSession{ID: ids[attempt*7919%million], NewOwner: 2, Instance: 1, Attempt: attempt, Named: 1})
	}
}

// One iteration ends 100,000 of a million sessions, as many in each entry as one command holds: what a storm of
// expiries costs each replica. They are neighbours in the order of their ids, as the sessions of clients that came
// together are.
func BenchmarkApplyClose(b *testing.B) {
	const storm = 100_000
	opens := encodedOpens(b, million)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		r := filled(b, opens)
		r.do(b, session.ForgetRequests{UpToIndex: r.next})
		entries := encodedCloses(b, r, storm)
		runtime.GC()
		b.StartTimer()
		for _, data := range entries {
			r.applyBytes(b, 1, data)
		}
		b.StopTimer()
		if got := r.Sessions(); got != million-storm {
			b.Fatalf("%d sessions, want %d", got, million-storm)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/storm, "ns/session")
}

// encodedCloses returns entries that end the first n sessions of r.
func encodedCloses(b *testing.B, r *replica, n int) [][]byte {
	b.Helper()
	var all []session.Closing
	r.Frozen().Ascend(0, func(s session.Session) bool {
		all = append(all, session.Closing{ID: s.ID, Attachment: s.Attachment, LastTouchAge: 4 * time.Second})
		return len(all) < n
	})
	var entries [][]byte
	for part := range slices.Chunk(all, session.MaxCloseBatch) {
		c := session.CloseSessions{Term: 1, Cause: session.CauseExpired, MS: 1, Sessions: part}
		data, err := entry.Encode([]session.Command{c})
		if err != nil {
			b.Fatal(err)
		}
		entries = append(entries, data)
	}
	return entries
}
