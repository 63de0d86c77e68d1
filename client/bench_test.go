package client

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"holdfast/client/internal/core"
	"holdfast/client/internal/core/conn"
	sessions "holdfast/client/internal/core/session"
	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

const benchTimeout = 40 * time.Second

// benched is a client without goroutines: the benchmark acts as its connection.
type benched struct {
	loop *loop
	conn *conn.Conn
	sent []*holdfastv1.ClientMessage
	held int
}

func newBenched(b *testing.B) *benched {
	b.Helper()
	cfg, err := complete(Config{Endpoints: []string{"n1:7400"}})
	if err != nil {
		b.Fatal(err)
	}
	l := newLoop(cfg, newClock(), shared{occupancy: new(occupancy), seen: new(seen)}, core.Config{
		Instance: cfg.Instance, Servers: cfg.Endpoints, ConnectTimeout: cfg.ConnectTimeout, HedgeDelay: cfg.HedgeDelay,
		Jitter: route.NewJitter(cfg.Rand, cfg.MinBackoff, cfg.MaxBackoff),
	})
	return &benched{loop: l}
}

// turn runs a turn like the loop, but keeps the messages.
func (c *benched) turn(at time.Time, in core.Input) {
	e := c.loop.core.Turn(core.Moment{Now: at}, in)
	c.loop.sessions(e, 0)
	for _, a := range e.Conns.Actions {
		switch a.Do {
		case conn.Dial:
			c.conn = a.Conn
		case conn.Send:
			c.sent = append(c.sent, a.Message)
		case conn.HangUp, conn.AskMembers:
		}
	}
}

// answer acts as the node: it grants opens and promises touches. It returns the number of messages.
func (c *benched) answer(at time.Time) (messages int) {
	for len(c.sent) > 0 {
		m := c.sent[0]
		c.sent = c.sent[1:]
		messages++
		answer := touchedMessage(m.GetTouch().GetSeq(), promised(benchTimeout))
		if open := m.GetOpen(); open != nil {
			answer = c.openedMessage(open.GetSeq())
		}
		c.turn(at, core.Received{Conn: c.conn, Message: answer})
	}
	return messages
}

// add opens one more session.
func (c *benched) add(b *testing.B, at time.Time) {
	b.Helper()
	w := newWaiter(b.Context())
	w.Session = newSession(b.Context(), c.loop)
	w.Want = sessions.Want{Spec: session.Spec{Timeout: benchTimeout}, Request: session.RequestID{1}}
	former := c.conn
	c.turn(at, core.Open{Call: &w.Call})
	if former == nil {
		c.turn(at, core.Up{Conn: c.conn})
	}
	c.answer(at)
}

func (c *benched) openedMessage(seq uint64) *holdfastv1.ServerMessage {
	c.held++
	id := session.ID(c.held)
	s := session.Session{ID: id, Spec: session.Spec{Timeout: benchTimeout}, Owner: 1, Attachment: 1}
	return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Opened{Opened: &holdfastv1.Opened{
		Seq: seq, Session: wire.SessionProto(s), Token: wire.TokenProto(session.Token{ID: id, Attachment: 1}),
		SafeFor: wire.PromiseProto(promised(benchTimeout)),
	}}}
}

func touchedMessage(seq uint64, safeFor time.Duration) *holdfastv1.ServerMessage {
	return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: &holdfastv1.Touched{
		Seq: seq, SafeFor: durationpb.New(safeFor),
	}}}
}

// BenchmarkSession measures the cost of one more session of a client: memory, and the work of a touch of all.
func BenchmarkSession(b *testing.B) {
	const many = 10_000
	b.Run("memory", func(b *testing.B) {
		b.ReportAllocs()
		c, at := newBenched(b), time.Now()
		before := heap()
		for b.Loop() {
			c.add(b, at)
		}
		b.ReportMetric(float64(heap()-before)/float64(c.held), "B-held/session")
		runtime.KeepAlive(c)
	})
	b.Run(fmt.Sprintf("touch-of-%d", many), func(b *testing.B) {
		b.ReportAllocs()
		c, at := newBenched(b), time.Now()
		for range many {
			c.add(b, at)
		}
		messages, touches := 0, 0
		for b.Loop() {
			at = at.Add(benchTimeout / sessions.TouchPart)
			c.turn(at, nil)
			touches++
			messages += c.answer(at)
		}
		b.ReportMetric(float64(messages)/float64(touches), "messages/interval")
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(touches)/many, "ns/session")
	})
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
