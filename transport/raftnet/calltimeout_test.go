package raftnet

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/sim/simnet"
)

// thinPair holds the transports of two nodes, a and b, and the network between them, which delays a's bytes.
type thinPair struct {
	*simnet.Network
	a, b *Transport
	// sent counts a's writes to connections that it has dialled.
	sent atomic.Int64
	// close closes both transports and the network.
	close func()
}

// kernelBuffer is the number of bytes that a kernel buffers for a writer.
const kernelBuffer = 4 << 20

func newThinPair(t *testing.T, bits int) *thinPair {
	t.Helper()
	p := &thinPair{Network: simnet.New(func(string, string) time.Duration { return time.Millisecond })}
	p.Thin("a", "b", bits, kernelBuffer)
	var layers []*Layer
	for i, name := range []string{"a", "b"} {
		host := p.Host(name)
		listener, err := host.Listen(":1")
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, New(Config{
			ClusterID: "c", Node: session.Node(i + 1), Advertise: name, Listener: listener,
			Dial: func(ctx context.Context, address string) (net.Conn, error) {
				conn, err := host.Dial(ctx, address+":1")
				if err != nil || name != "a" {
					return conn, err
				}
				return &counted{Conn: conn, writes: &p.sent}, nil
			},
		}))
	}
	p.a, p.b = NewTransport(layers[0], 0), NewTransport(layers[1], 0)
	p.close = func() {
		p.a.CloseStreams()
		p.b.CloseStreams()
		if err := errors.Join(p.a.Close(), p.b.Close(), layers[0].Close(), layers[1].Close()); err != nil {
			t.Error(err)
		}
	}
	return p
}

// counted counts the writes to a connection.
type counted struct {
	net.Conn
	writes *atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// batch is an append request of so many bytes.
func batch(size int) *raft.AppendEntriesRequest {
	request := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: 3}, Term: 7, PrevLogEntry: 1,
		LeaderCommitIndex: 9,
	}
	for ; size > 0; size -= 100_000 {
		request.Entries = append(request.Entries,
			&raft.Log{Index: uint64(2 + len(request.Entries)), Term: 7, Data: make([]byte, min(size, 100_000))})
	}
	return request
}

// answering answers each request of b after a while.
func (p *thinPair) answering(after time.Duration) {
	go func() {
		for {
			select {
			case rpc := <-p.b.Consumer():
				var err error
				if rpc.Reader != nil {
					_, err = io.Copy(io.Discard, rpc.Reader)
				}
				time.Sleep(after)
				rpc.Respond(answerTo(rpc.Command), err)
			case <-time.After(10 * time.Minute):
				return
			}
		}
	}()
}

// TestARequestMayTakeAsLongAsItMoves: a request that needs minutes to arrive over a slow link, and one that needs
// minutes for its answer, are not given up, although the kernel holds half a minute's worth of unsent bytes.
func TestARequestMayTakeAsLongAsItMoves(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newThinPair(t, 1_000_000)
		defer p.close()
		const worked = 2 * time.Minute
		p.answering(worked)
		snapshot := &raft.InstallSnapshotRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: 3}, SnapshotVersion: 1,
			Term: 7, Size: 9_000_000,
		}
		for _, request := range []any{batch(9_000_000), snapshot} {
			begun := time.Now()
			_, err := send(p.a.NetworkTransport, request, make([]byte, 9_000_000))
			if took, want := time.Since(begun), 72*time.Second+worked; err != nil || took < want ||
				took > want+10*time.Second {
				t.Errorf("%T ended after %v: %v; want a good end after %v", request, took, err, want)
			}
		}
		time.Sleep(20 * time.Minute) // who answers ends
	})
}

// TestADeadPeerIsNoticedAsSoonAsEver: whenever the other node dies or is cut off in the course of a request, the
// dialler notices exactly one timeout later.
func TestADeadPeerIsNoticedAsSoonAsEver(t *testing.T) {
	pause := func(p *thinPair) { p.Pause("b") }
	unheard := func(p *thinPair) { p.Cut("b", "a") }
	for name, c := range map[string]struct {
		request any
		at      time.Duration
		kill    func(*thinPair)
		want    time.Duration
	}{
		"before a heartbeat":       {&raft.AppendEntriesRequest{Term: 7}, 0, pause, defaultTimeout},
		"while a batch is sent":    {batch(9_000_000), 20 * time.Second, pause, defaultTimeout},
		"while a batch arrives":    {batch(3_000_000), 20 * time.Second, pause, defaultTimeout},
		"while a batch is handled": {batch(100_000), 20 * time.Second, pause, defaultTimeout},
		"unheard of in a batch":    {batch(9_000_000), 20 * time.Second, unheard, defaultTimeout},
		"while a snapshot is sent": {
			&raft.InstallSnapshotRequest{SnapshotVersion: 1, Size: 9_000_000},
			20 * time.Second, pause, snapshotTimeout,
		},
		"while it is restored": {
			&raft.InstallSnapshotRequest{SnapshotVersion: 1, Size: 100_000}, 20 * time.Second,
			pause, snapshotTimeout,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				p := newThinPair(t, 1_000_000)
				defer p.close()
				p.answering(time.Minute)
				if _, err := p.a.AppendEntriesPipeline("2", "b"); !errors.Is(err,
					raft.ErrPipelineReplicationNotSupported) {
					t.Error("pipelining is on")
				}
				var killed time.Time
				time.AfterFunc(c.at, func() {
					killed = time.Now()
					c.kill(p)
				})
				var data []byte
				if r, ok := c.request.(*raft.InstallSnapshotRequest); ok {
					data = make([]byte, r.Size)
				}
				_, err := send(p.a.NetworkTransport, c.request, data)
				// The last report came up to one interval and a millisecond before.
				if took := time.Since(killed); err == nil || took > c.want+time.Millisecond || took < c.want*7/10 {
					t.Errorf("noticed %v after the death: %v; want %v", took, err, c.want)
				}
				time.Sleep(20 * time.Minute) // who answers ends
			})
		})
	}
}

// TestAVoteIsNotWaitedFor: a live node that does not answer a vote is given up at Raft's deadline.
func TestAVoteIsNotWaitedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newThinPair(t, 1_000_000)
		defer p.close()
		p.answering(time.Minute)
		for _, request := range []any{
			&raft.RequestVoteRequest{Term: 7}, &raft.RequestPreVoteRequest{Term: 7},
			&raft.TimeoutNowRequest{},
		} {
			begun := time.Now()
			_, err := send(p.a.NetworkTransport, request, nil)
			if took := time.Since(begun); err == nil || took > defaultTimeout+10*time.Millisecond ||
				took < defaultTimeout {
				t.Errorf("%T ended after %v: %v, want %v", request, took, err, defaultTimeout)
			}
		}
		time.Sleep(20 * time.Minute) // who answers ends
	})
}

// TestALeaderThatVanishesInASnapshot: Raft reads a snapshot on the goroutine that does everything else, and sets no
// deadline. A follower whose leader vanished in the middle of a snapshot would do nothing any more.
func TestALeaderThatVanishesInASnapshot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newThinPair(t, 1_000_000)
		defer p.close()
		var vanished atomic.Int64
		time.AfterFunc(20*time.Second, func() {
			p.Pause("a")
			vanished.Store(time.Now().UnixNano())
		})
		go func() {
			_, _ = send(p.a.NetworkTransport, &raft.InstallSnapshotRequest{SnapshotVersion: 1, Size: 9_000_000},
				make([]byte, 9_000_000))
		}()
		rpc := <-p.b.Consumer()
		n, err := io.Copy(io.Discard, rpc.Reader)
		_, again := io.Copy(io.Discard, rpc.Reader) // as Raft does before it answers
		took := time.Since(time.Unix(0, vanished.Load()))
		if !errors.Is(err, errStalled) || !errors.Is(again, errStalled) || n == 0 ||
			took > snapshotTimeout+time.Second || took < snapshotTimeout-time.Second {
			t.Errorf("%d bytes, then after %v: %v; want an end after %v", n, took, err, snapshotTimeout)
		}
		rpc.Respond(&raft.InstallSnapshotResponse{}, err)
		time.Sleep(time.Minute)
	})
}

// TestReports: a request that is answered soon brings only its answer. A slow one brings a report each interval while
// it moves, and when all of it has come. A request that stopped in its middle brings none, and a vote brings none.
func TestReports(t *testing.T) {
	const interval = defaultTimeout / reportsPerTimeout
	for name, c := range map[string]struct {
		said  string
		after time.Duration
		want  int
	}{
		"soon answered":            {"\x00\x80", interval - 1, 0},
		"answered late":            {"\x00\x80", 10*interval + 1, 10},
		"stopped in its middle":    {"\x00\x81", 10 * interval, 1}, // for its first bytes
		"a snapshot":               {"\x02\x80", 10*interval + 1, 10},
		"a vote that takes a time": {"\x01\x80", 10 * interval, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				s := newServed(theirs, defaultTimeout)
				reports := make(chan int)
				go func() {
					b, _ := io.ReadAll(ours)
					n := 0
					for n < len(b) && b[n] == stillHere {
						n++
					}
					if got := string(b[n:]); got != "answer" {
						t.Errorf("after the reports came %q", got)
					}
					reports <- n
				}()
				go func() { _, _ = ours.Write([]byte(c.said)) }()
				for got := 0; got < len(c.said); {
					n, err := s.Read(make([]byte, 10))
					if err != nil {
						t.Fatal(err)
					}
					got += n
				}
				time.Sleep(c.after)
				if _, err := s.Write([]byte("answer")); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * interval) // no reports come after the answer
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if got := <-reports; got != c.want {
					t.Errorf("%d reports, want %d", got, c.want)
				}
			})
		})
	}
}

// TestRequestsAreBounded: a batch goes out in parts of bounded size, each visible to Raft, and names no commit beyond
// its entries.
func TestRequestsAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newThinPair(t, 1_000_000_000)
		defer p.close()
		p.answering(0)
		for _, c := range []struct {
			request         *raft.AppendEntriesRequest
			entries, commit int
		}{
			{batch(300_000), 3, 4},
			{batch(5_000_000), MaxRequest / (100_000 + entryBytes), 9},
			{&raft.AppendEntriesRequest{PrevLogEntry: 5, LeaderCommitIndex: 9}, 0, 5},
			{&raft.AppendEntriesRequest{PrevLogEntry: 12, LeaderCommitIndex: 9}, 0, 9},
			{&raft.AppendEntriesRequest{}, 0, 0}, // a heartbeat: all zeros
			{&raft.AppendEntriesRequest{Entries: []*raft.Log{{Data: make([]byte, MaxField)}, {}}}, 1, 0},
		} {
			err := p.a.AppendEntries("2", "b", c.request, &raft.AppendEntriesResponse{})
			if got := c.request; err != nil || len(got.Entries) != c.entries ||
				got.LeaderCommitIndex != uint64(c.commit) {
				t.Errorf("%d entries and commit %d went out, %v; want %d and %d", len(got.Entries),
					got.LeaderCommitIndex, err, c.entries, c.commit)
			}
		}
		time.Sleep(20 * time.Minute) // who answers ends
	})
}
