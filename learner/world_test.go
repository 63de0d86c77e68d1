package learner

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/store"
	"holdfast/tree/writers"
)

const (
	interval = 500 * time.Millisecond
	timeout  = 10 * time.Second
)

// readOnlyAfter is Config.ReadOnlyAfter of the nodes that may be read-only.
const readOnlyAfter = 5 * time.Second

// promised returns the promise for a touch that was received age after the newest confirmed touch (S3 length of a
// promise).
func promised(age time.Duration) time.Duration {
	return timeout - age - timeout/100 - time.Millisecond
}

// world is a server with a state, one connection and a leader, in a bubble.
type world struct {
	t      *testing.T
	view   *fakeView
	server *Server
	events *events
	conn   *connection
	leader *fakeLeader
}

// config configures node 1.
func config() Config {
	return Config{
		Node: 1, Interval: interval, CatchUpWait: time.Second, Try: func() []string { return []string{"other:7400"} },
		Logger: hclog.NewNullLogger(), Tree: emptyTree(true),
	}
}

// emptyTree is a tree without entries, of a cluster that is founded or not.
func emptyTree(founded bool) TreeState {
	return TreeState{
		Founded: founded, Root: store.New(noDigest{}, tree.DefaultLimits(), store.At{Stamp: tree.StampAt(1, 1)}).Freeze(),
		Writers: writers.New(noDigest{}, writers.DefaultLimits()).Freeze(),
	}
}

// noDigest is a digest that nobody looks at.
type noDigest struct{}

func (noDigest) Add([]byte)    {}
func (noDigest) Remove([]byte) {}

// localConfig configures node 1 to accept local sessions.
func localConfig() Config {
	c := config()
	c.ExpiryInterval = width
	c.Limits = session.Limits{Min: time.Second, Max: 20 * time.Second}
	c.Local, c.Upgrade = true, true
	return c
}

// readOnlyConfig configures node 1 to accept local sessions, and to be read-only without good rounds.
func readOnlyConfig() Config {
	c := localConfig()
	c.ReadOnly, c.ReadOnlyAfter = true, readOnlyAfter
	return c
}

// newWorld starts a server without local sessions.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, config())
}

// newWorldOf starts a server, which ends before the test does.
func newWorldOf(t *testing.T, cfg Config) *world {
	t.Helper()
	w := &world{t: t, view: newFakeView(), events: &events{}}
	w.server = NewServer(cfg, w.view)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.server.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	w.conn = w.connect(w.events).(*connection)
	return w
}

// follow gives the server a new leader. The link ends at the next call, or with the test.
func (w *world) follow() *fakeLeader {
	w.t.Helper()
	if w.leader != nil {
		w.leader.end()
		synctest.Wait() // a relay has one stream at a time
	}
	l := newFakeLeader(w.t)
	w.followed(l)
	return l
}

// followed gives the server a leader.
func (w *world) followed(l *fakeLeader) {
	w.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.server.Follow(l)
	}()
	w.t.Cleanup(func() { l.end(); <-done })
	synctest.Wait() // the relay has taken in the welcome
	w.leader = l
}

// settle lets every goroutine of the bubble go on as far as it can.
func (w *world) settle() { synctest.Wait() }

// granted is the outcome of a request.
type granted struct {
	session.Grant
	err error
}

// later makes a request in a goroutine of its own.
func later(ask func() (session.Grant, error)) <-chan granted {
	done := make(chan granted, 1)
	go func() {
		g, err := ask()
		done <- granted{g, err}
	}()
	return done
}

// opening asks for a global session through the connection, in a goroutine of its own.
func (w *world) opening() <-chan granted {
	return later(func() (session.Grant, error) {
		return w.conn.Open(w.t.Context(), session.OpenRequest{Spec: session.Spec{Timeout: timeout}})
	})
}

// resuming resumes a session through c, in a goroutine of its own.
func (w *world) resuming(c session.Connection, t session.Token) <-chan granted {
	return later(func() (session.Grant, error) {
		return c.Resume(w.t.Context(), session.ResumeRequest{Token: t, Instance: 1, Attempt: 1})
	})
}

// open opens a session through the connection. The leader grants it at once, and the state has applied it.
func (w *world) open(id session.ID, attachment uint64) session.Grant {
	w.t.Helper()
	done := w.opening()
	r := w.leader.request()
	s := session.Session{ID: id, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: attachment}
	w.view.put(s)
	w.leader.reply(session.Reply{Seq: r.Seq, Term: 1, Session: s})
	got := <-done
	if got.err != nil {
		w.t.Fatalf("opening: %v", got.err)
	}
	return got.Grant
}

// promises fails unless a touch gets the promise want. It touches ids, or all sessions without ids.
func (w *world) promises(what string, want time.Duration, ids ...session.ID) {
	w.t.Helper()
	if got := w.conn.Touch(ids).SafeFor; got != want {
		w.t.Errorf("promise %s: %v, want %v", what, got, want)
	}
}

// promisesNothing fails if a touch of all sessions gets a promise.
func (w *world) promisesNothing(what string) {
	w.t.Helper()
	if got := w.conn.Touch(nil).SafeFor; got >= 0 {
		w.t.Errorf("promise %s: %v, want none", what, got)
	}
}

// move applies a move of a session away from this node.
func (w *world) move(id session.ID, attachment uint64) {
	s, _ := w.view.Session(id)
	s.Owner, s.Attachment = 2, attachment
	w.view.put(s)
	w.server.Applied(0, 1, []session.Change{{Kind: session.Moved, Session: s}})
}

// token returns the token of an attachment of a global session.
func (w *world) token(id session.ID, attachment uint64) session.Token {
	credential, _ := w.view.Credential(id)
	return session.Token{ID: id, Credential: credential, Attachment: attachment}
}

// connect makes another connection.
func (w *world) connect(e session.Events) session.Connection {
	w.t.Helper()
	c, err := w.server.Connect(e)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// readWrite has a read-write node with ids for local sessions, which has applied entry 7.
func readWrite(t *testing.T) *world {
	t.Helper()
	w := newWorldOf(t, readOnlyConfig())
	w.follow()
	w.claims(firstLocal)
	w.view.apply(7)
	w.good()
	return w
}

// cutOff has a node that was read-write, with a global session on its connection. The leader is still there, but has
// not had a good round for long, so the node is read-only now.
func cutOff(t *testing.T) (*world, session.Grant) {
	t.Helper()
	w := readWrite(t)
	g := w.open(1, 1)
	time.Sleep(readOnlyAfter + look)
	w.is(session.ModeReadOnly)
	return w, g
}

// good makes the leader report a good round.
func (w *world) good() {
	w.t.Helper()
	w.leader.beat(session.Heartbeat{Good: w.leader.round + 1, Confirmed: w.leader.round})
	synctest.Wait()
}

// is fails unless the node is in a mode, at the index that it has applied.
func (w *world) is(want session.Mode) {
	w.t.Helper()
	if got := w.server.State(); got.Mode != want || got.Node != 1 || got.Index != w.view.AppliedIndex() {
		w.t.Errorf("state is %+v, want %v of node 1 at %d", got, want, w.view.AppliedIndex())
	}
}

// unasked fails if the leader was asked for anything.
func (w *world) unasked(what string) {
	w.t.Helper()
	synctest.Wait()
	select {
	case m := <-w.leader.toLeader:
		w.t.Errorf("%s: the leader was asked %+v", what, m.Requests)
	default:
	}
}

// suspend makes the server find that the machine was suspended for d.
func (w *world) suspend(d time.Duration) {
	w.server.clock.stalls.observe(instant{mono: w.server.clock.now(), wall: time.Now().Add(d).Round(0)})
}

// stall makes the server believe that it has not looked for d longer than it has.
func (w *world) stall(d time.Duration) {
	w.server.clock.stalls.mu.Lock()
	defer w.server.clock.stalls.mu.Unlock()
	w.server.clock.stalls.last -= d
}
