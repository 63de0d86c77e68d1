package client

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

const benchTimeout = 40 * time.Second

// benched returns a loop that nothing runs, with a connection that is up.
func benched(b *testing.B) (*loop, *conn) {
	b.Helper()
	cl, err := New(Config{Endpoints: []string{"n1:7400"}})
	if err != nil {
		b.Fatal(err)
	}
	l := newLoop(cl.cfg, cl.clock, cl.jitter)
	l.look()
	c := &conn{
		Target: route.Target{Server: "n1:7400", Address: "n1:7400"}, cancel: func() {}, up: true,
		inflight: make(map[uint64]*request),
		out:      make(chan *holdfastv1.ClientMessage, requestWindow+touchWindow),
	}
	l.cur = c
	return l, c
}

// add has c serve one more session, as an open does.
func add(b *testing.B, l *loop, c *conn, id session.ID) {
	b.Helper()
	h := &held{s: newSession(b.Context(), l, session.Token{ID: id, Attachment: 1})}
	l.sessions[id] = h
	l.attach(h, c, &request{sent: l.now}, session.Grant{
		Session: session.Session{ID: id, Timeout: benchTimeout, Owner: 1, Attachment: 1},
		Token:   session.Token{ID: id, Attachment: 1}, SafeFor: promised(benchTimeout),
	})
}

func touchedMessage(seq uint64, safeFor time.Duration) *holdfastv1.ServerMessage {
	return &holdfastv1.ServerMessage{
		Message: &holdfastv1.ServerMessage_Touched{
			Touched: &holdfastv1.Touched{Seq: seq, SafeFor: durationpb.New(safeFor)},
		},
	}
}

// BenchmarkSession is what one more session of a client costs: bytes that stay, and the work of a touch of all.
func BenchmarkSession(b *testing.B) {
	const crowd = 10_000
	b.Run("memory", func(b *testing.B) {
		b.ReportAllocs()
		l, c := benched(b)
		before := heap()
		for b.Loop() {
			add(b, l, c, session.ID(len(l.sessions)+1))
		}
		b.ReportMetric(float64(heap()-before)/float64(len(l.sessions)), "B-held/session")
		runtime.KeepAlive(l)
	})
	b.Run(fmt.Sprintf("touch-of-%d", crowd), func(b *testing.B) {
		b.ReportAllocs()
		l, c := benched(b)
		for i := range crowd {
			add(b, l, c, session.ID(i+1))
		}
		messages, touches := 0, 0
		for b.Loop() {
			l.look()
			c.touchAt = l.now
			l.touch(c)
			touches++
			for len(c.out) > 0 {
				seq := (<-c.out).GetTouch().GetSeq()
				messages++
				l.received(c, touchedMessage(seq, promised(benchTimeout)))
			}
		}
		b.ReportMetric(float64(messages)/float64(touches), "messages/interval")
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(touches)/crowd, "ns/session")
	})
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
