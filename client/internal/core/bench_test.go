package core

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

const benchTimeout = 40 * time.Second

// promised is the promise of a node that has just taken a touch.
const promised = benchTimeout - benchTimeout/100

// add adds a session that c serves, as an open does.
func add(l *Core, c *Conn, id session.ID) {
	token := session.Token{ID: id, Attachment: 1}
	l.effects.reset()
	l.attach(l.hold(new(Call), token), c, &window.Request{Sent: l.now}, session.Grant{
		Session: session.Session{ID: id, Timeout: benchTimeout, Owner: 1, Attachment: 1}, Token: token,
		SafeFor: promised,
	})
}

// BenchmarkSession measures what one more session costs the core: the bytes that it holds, and its share of a touch.
func BenchmarkSession(b *testing.B) {
	const sessions = 10_000
	b.Run("memory", func(b *testing.B) {
		b.ReportAllocs()
		l, c := newTestCore(), upConn("n1:7400")
		l.now, l.cur = time.Now(), c
		before := heap()
		for b.Loop() {
			add(l, c, session.ID(len(l.sessions)+1))
		}
		b.ReportMetric(float64(heap()-before)/float64(len(l.sessions)), "B-held/session")
		runtime.KeepAlive(l)
	})
	b.Run(fmt.Sprintf("touch-of-%d", sessions), func(b *testing.B) {
		b.ReportAllocs()
		l, c := newTestCore(), upConn("n1:7400")
		l.now, l.cur = time.Now(), c
		for i := range sessions {
			add(l, c, session.ID(i+1))
		}
		messages, touches := 0, 0
		for b.Loop() {
			at := Moment{Now: time.Now()}
			c.touchAt = at.Now
			touches++
			for _, a := range l.Turn(at, nil).Actions {
				messages++
				touched := &holdfastv1.Touched{Seq: a.Message.GetTouch().GetSeq(), SafeFor: durationpb.New(promised)}
				l.Turn(at, Received{c, &holdfastv1.ServerMessage{
					Message: &holdfastv1.ServerMessage_Touched{Touched: touched},
				}})
			}
		}
		b.ReportMetric(float64(messages)/float64(touches), "messages/interval")
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(touches)/sessions, "ns/session")
	})
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
