package learner

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

const (
	interval = 500 * time.Millisecond
	timeout  = 10 * time.Second
)

// readOnlyAfter is that of the nodes of these tests.
const readOnlyAfter = 5 * time.Second

// promised is what S3 makes of a touch received when another one, so much older, is the newest confirmed.
func promised(older time.Duration) time.Duration {
	return timeout - older - timeout/100 - time.Millisecond
}

// world is a server with its state, one connection and a leader, in a bubble.
type world struct {
	t      *testing.T
	view   *fakeView
	server *Server
	events *events
	conn   *connection
	leader *fakeLeader
}

// newWorld starts a server; when the test ends, everything has ended.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, Config{
		Node:        1,
		Interval:    interval,
		LaggingWait: time.Second,
		Try:         func() []string { return []string{"other:7400"} },
		Logger:      hclog.NewNullLogger(),
	})
}

func newWorldOf(t *testing.T, cfg Config) *world {
	t.Helper()
	w := &world{t: t, view: newFakeView(), events: &events{}}
	w.server = NewServer(cfg, w.view)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.server.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	c, err := w.server.Connect(w.events)
	if err != nil {
		t.Fatal(err)
	}
	w.conn = c.(*connection)
	return w
}

// follow gives the server a new leader; the link ends with the test or at the next call.
func (w *world) follow() *fakeLeader {
	w.t.Helper()
	if w.leader != nil {
		w.leader.end()
		synctest.Wait() // a relay has one stream at a time
	}
	l := newFakeLeader(w.t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.server.Follow(l)
	}()
	w.t.Cleanup(func() { l.end(); <-done })
	synctest.Wait() // the relay has taken in the welcome
	w.leader = l
	return l
}

// open opens a session through the connection: the leader grants it at once, and the state has applied it.
func (w *world) open(id session.ID, attachment uint64) session.Grant {
	w.t.Helper()
	type result struct {
		grant session.Grant
		err   error
	}
	done := make(chan result)
	go func() {
		g, err := w.conn.Open(w.t.Context(), session.OpenRequest{Timeout: timeout})
		done <- result{g, err}
	}()
	r := w.leader.request()
	s := session.Session{ID: id, Timeout: timeout, Owner: 1, Attachment: attachment}
	w.view.put(s)
	w.leader.reply(session.Reply{Seq: r.Seq, Term: 1, Session: s})
	got := <-done
	if got.err != nil {
		w.t.Fatalf("opening: %v", got.err)
	}
	return got.grant
}

// move applies a move of a session away from this node.
func (w *world) move(id session.ID, attachment uint64) {
	s, _ := w.view.Session(id)
	s.Owner, s.Attachment = 2, attachment
	w.view.put(s)
	w.server.Applied(0, 1, []session.Change{{Kind: session.Moved, Session: s}})
}

func (w *world) token(id session.ID, attachment uint64) session.Token {
	credential, _ := w.view.Credential(id)
	return session.Token{ID: id, Credential: credential, Attachment: attachment}
}

func (w *world) connect(e session.Events) session.Connection {
	w.t.Helper()
	c, err := w.server.Connect(e)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// readOnlyConfig is that of a node which may be read-only, and takes local sessions.
func readOnlyConfig() Config {
	return Config{
		Node: 1, Interval: interval, ExpiryInterval: width,
		Limits: session.Limits{Min: time.Second, Max: 20 * time.Second}, Local: true, Upgrade: true,
		ReadOnly: true, ReadOnlyAfter: readOnlyAfter,
		LaggingWait: time.Second, Try: func() []string { return nil }, Logger: hclog.NewNullLogger(),
	}
}

// cutOff has a node that served: with a session, a connection that has it, ids for local ones, and entry 7 applied. Its
// leader is there still, and has had no good round for long: the node is read-only.
func cutOff(t *testing.T) (*world, session.Grant) {
	t.Helper()
	w := newWorldOf(t, readOnlyConfig())
	w.follow()
	w.claims(firstLocal)
	g := w.open(1, 1)
	w.view.apply(7)
	w.good()
	time.Sleep(readOnlyAfter + look)
	w.is(session.ModeReadOnly)
	return w, g
}

// good lets the leader tell of a good round.
func (w *world) good() {
	w.t.Helper()
	w.leader.beat(session.Heartbeat{Good: w.leader.round + 1, Confirmed: w.leader.round})
	synctest.Wait()
}

func (w *world) is(want session.Mode) {
	w.t.Helper()
	if got := w.server.State(); got.Mode != want || got.Node != 1 || got.Index != w.view.AppliedIndex() {
		w.t.Errorf("state is %+v, want %v of node 1 at %d", got, want, w.view.AppliedIndex())
	}
}

// unasked fails if anything came to the leader.
func (w *world) unasked(what string) {
	w.t.Helper()
	synctest.Wait()
	select {
	case m := <-w.leader.toLeader:
		w.t.Errorf("%s: the leader was asked %+v", what, m.Request)
	default:
	}
}

// suspend has the server find that the machine was suspended.
func (w *world) suspend() {
	w.server.clock.stalls.look(instant{mono: time.Since(w.server.clock.base), wall: time.Now().Add(time.Hour).Round(0)})
}
