package tree_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	treeservice "holdfast/learner/tree"
	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
	"holdfast/tree/form"
	"holdfast/tree/store"
	"holdfast/tree/writers"
)

// bag is a digest that nobody looks at.
type bag struct{}

func (bag) Add([]byte)    {}
func (bag) Remove([]byte) {}

// fakeNode is the rest of the node: its sessions, and the leader that writes go to.
type fakeNode struct {
	mu       sync.Mutex
	sessions map[session.ID]session.Session
	// sent are the writes that were sent and that no test has looked at.
	sent []session.ForwardedWrite
	// busy is a stream that takes nothing now.
	busy     bool
	acks     []session.Acknowledged
	standing error
	// sync answers the questions to the leader; syncs counts them.
	sync  func(ctx context.Context) error
	syncs int
	// woken, when set, has room for one signal: something was sent.
	woken chan struct{}
}

// forward is the stream to the leader: it sends what is pending until ctx ends.
func (n *fakeNode) forward(ctx context.Context, from *treeservice.Service) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		again := time.Time{}
		for more := !n.isBusy(); more; {
			var m session.ForwardMessage
			if m, more, again = from.Next(); more {
				n.mu.Lock()
				n.sent, n.acks = append(n.sent, m.Writes...), append(n.acks, m.Acknowledged...)
				n.mu.Unlock()
				poke(n.woken)
			}
		}
		timer.Stop()
		if !again.IsZero() {
			timer.Reset(time.Until(again))
		}
		select {
		case <-from.Wake():
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

func (n *fakeNode) isBusy() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.busy
}

// poke signals without blocking; nil is nobody.
func poke(woken chan struct{}) {
	select {
	case woken <- struct{}{}:
	default:
	}
}

func (n *fakeNode) Sync(ctx context.Context) error {
	n.mu.Lock()
	n.syncs++
	ask := n.sync
	n.mu.Unlock()
	if ask == nil {
		return nil
	}
	return ask(ctx)
}

func (n *fakeNode) ReadError() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.standing
}

func (n *fakeNode) Session(id session.ID) (session.Session, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, ok := n.sessions[id]
	return s, ok
}

// world is a service, and the state that its node has applied.
type world struct {
	testing.TB
	node    *fakeNode
	service *treeservice.Service
	tree    *store.Tree
	writers *writers.Table
	index   uint64
	clock   time.Duration
}

// newWorld returns a world. The caller runs its service.
func newWorld(tb testing.TB, change func(*treeservice.Config)) *world {
	tb.Helper()
	w := &world{TB: tb, node: &fakeNode{sessions: map[session.ID]session.Session{}}, index: 1}
	w.tree = store.New(bag{}, tree.DefaultLimits(), store.At{Stamp: tree.StampAt(w.index, 1)})
	w.writers = writers.New(bag{}, writers.DefaultLimits())
	cfg := treeservice.Config{
		Node: w.node, Tree: w.state(), Wait: 2 * time.Second, Pulse: session.NewPulse(), Dispatchers: 2,
	}
	if change != nil {
		change(&cfg)
	}
	w.service = treeservice.New(cfg)
	w.service.ForwardBegan()
	return w
}

// inWorld runs a test in a bubble, with a service that runs.
func inWorld(t *testing.T, change func(*treeservice.Config), f func(w *world)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, change)
		defer w.run()()
		synctest.Wait()
		f(w)
	})
}

// run runs the service until stop is called.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var ran sync.WaitGroup
	ran.Go(func() { w.service.Run(ctx) })
	ran.Go(func() { w.node.forward(ctx, w.service) })
	return func() {
		cancel()
		ran.Wait()
	}
}

func (w *world) state() treeservice.State {
	return treeservice.State{
		Index: w.index, Founded: true, Root: w.tree.Freeze(), Writers: w.writers.Freeze(), Clock: w.clock,
	}
}

// opens adds a session to the state.
func (w *world) opens(id session.ID) {
	w.index++
	s := session.Session{ID: id, Attachment: 1}
	w.change(session.Change{Kind: session.Opened, Session: s})
	w.service.Applied(w.state(), nil, nil)
	w.pass()
}

// pass lets the dispatchers show what was applied.
func (w *world) pass() {
	if _, bench := w.TB.(*testing.B); !bench {
		synctest.Wait()
	}
}

// moves gives a session a new attachment. Another client process takes over what it has written (X4 a new instance
// starts anew).
func (w *world) moves(id session.ID) {
	w.index++
	s, _ := w.node.Session(id)
	s.Attachment++
	w.writers.Moved(uint64(id))
	w.change(session.Change{Kind: session.Moved, Session: s})
	w.service.Applied(w.state(), nil, nil)
}

// ends ends a session.
func (w *world) ends(id session.ID) {
	w.index++
	s, _ := w.node.Session(id)
	w.writers.End(uint64(id))
	w.change(session.Change{Kind: session.Ended, Session: s, Certificate: &session.Certificate{ID: id}})
	w.service.Applied(w.state(), nil, nil)
}

// change applies a change of sessions, as the entry at index makes it.
func (w *world) change(c session.Change) {
	c.Stamp = tree.StampAt(w.index, 1)
	w.node.mu.Lock()
	if c.Kind == session.Ended {
		delete(w.node.sessions, c.Session.ID)
	} else {
		w.node.sessions[c.Session.ID] = c.Session
	}
	w.node.mu.Unlock()
	w.service.AppliedSessions(w.index, []session.Change{c})
}

// applies applies commands in one entry, and notifies the service.
func (w *world) applies(commands ...session.ForwardedWrite) {
	changes, wrote := w.entry(commands)
	w.service.Applied(w.state(), changes, wrote)
	w.pass()
}

// entry applies commands in one entry: rules W3 and X2.
func (w *world) entry(commands []session.ForwardedWrite) (changes []tree.Change, wrote []pending.Outcome) {
	w.index++
	for i, c := range commands {
		x, err := form.ParseWrite(c.Command)
		if err != nil {
			w.Fatal(err)
		}
		one := pending.Outcome{
			Session: c.Session, Attachment: x.Attachment, Number: x.Number, At: tree.StampAt(w.index, i+1),
		}
		changes = append(changes, w.decide(&x, &one)...)
		wrote = append(wrote, one)
	}
	return changes, wrote
}

func (w *world) decide(x *tree.NumberedWrite, one *pending.Outcome) []tree.Change {
	now, ok := w.node.Session(one.Session)
	switch {
	case !ok:
		one.Err = &session.ExpiredError{}
		return nil
	case now.Attachment != x.Attachment:
		one.Err = session.MovedTo(now)
		return nil
	}
	switch verdict, kept := w.writers.Admit(x.Session, x.Number, x.Acked); verdict {
	case writers.Apply:
	case writers.Repeat:
		one.Result = kept
		return nil
	case writers.Unknown:
		one.Err = session.ErrOutcomeUnknown
		return nil
	case writers.Gap:
		state, _ := w.writers.Writer(x.Session)
		one.Err = &tree.GapError{Expected: state.Applied + 1}
		return nil
	case writers.Window:
		one.Err = &tree.WindowError{}
		return nil
	}
	outcome, changes := w.tree.Do(
		store.At{Stamp: one.At, Session: x.Session, Principals: x.Principals}, x.Transaction)
	one.Result = form.AppendResult(nil, tree.Result{Stamp: one.At, Outcome: outcome, Void: x.Void})
	w.writers.Keep(x.Session, x.Number, "", one.Result)
	return changes
}

// restores has a snapshot replace the state by one in which these commands were applied, and change was made.
func (w *world) restores(change func(), commands ...session.ForwardedWrite) {
	w.entry(commands)
	if change != nil {
		change()
	}
	w.service.RestoredSessions()
	w.service.Restored(w.state())
}

// takes returns the messages sent since the last call.
func (w *world) takes() []session.ForwardedWrite {
	synctest.Wait()
	w.node.mu.Lock()
	defer w.node.mu.Unlock()
	sent := w.node.sent
	w.node.sent = nil
	return sent
}

// sends requires that just these writes were sent since it was asked last, in this order: "7.1" is the first of session
// 7.
func (w *world) sends(want string) []session.ForwardedWrite {
	w.Helper()
	sent := w.takes()
	var got []string
	for _, one := range sent {
		got = append(got, fmt.Sprintf("%d.%d", uint64(one.Session), one.Number))
	}
	if strings.Join(got, " ") != want {
		w.Errorf("sent %q, want %q", strings.Join(got, " "), want)
	}
	return sent
}

// client is a connection, and the sessions that it serves.
type client struct {
	*world
	conn *treeservice.Connection

	mu       sync.Mutex
	attached map[session.ID]uint64
	// local are local sessions. upgrade, which is called without mu, makes one global.
	local   map[session.ID]bool
	upgrade func(ctx context.Context, id session.ID) error
	keys    uint64
	// news, when set, has room for one signal: there may be something to tell.
	news chan struct{}
}

// connects makes a connection that serves sessions, which have an attachment each.
func (w *world) connects(ids ...session.ID) *client {
	return w.connectsFrom(tree.Principal{Scheme: tree.Super}, ids...)
}

// connectsFrom connects a client for whom the node vouches so.
func (w *world) connectsFrom(principal tree.Principal, ids ...session.ID) *client {
	c := &client{world: w, attached: map[session.ID]uint64{}, local: map[session.ID]bool{}}
	for _, id := range ids {
		now, ok := w.node.Session(id)
		if !ok {
			w.opens(id)
			now, _ = w.node.Session(id)
		}
		c.attached[id] = now.Attachment
	}
	c.conn = w.service.Connect(c, []tree.Principal{principal}, func() { poke(c.news) })
	return c
}

func (c *client) Attachment(id session.ID) (attachment uint64, local bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if attachment = c.attached[id]; attachment == 0 {
		return 0, false, session.ErrMoved
	}
	return attachment, c.local[id], nil
}

func (c *client) Upgrade(ctx context.Context, id session.ID) error { return c.upgrade(ctx, id) }

func (c *client) Adopt(_ context.Context, t session.Token) (session.Token, error) {
	now, ok := c.node.Session(t.ID)
	if !ok {
		return session.Token{}, session.ErrExpired
	}
	return session.Token{ID: t.ID, Attachment: now.Attachment}, nil
}

// numbered returns a write that makes an entry of its own.
func numbered(id session.ID, number, acked uint64) tree.NumberedWrite {
	return tree.NumberedWrite{Session: uint64(id), Number: number, Acked: acked, Transaction: tree.Transaction{
		Then: []tree.Op{tree.Create{Path: fmt.Sprintf("/%d-%d", uint64(id), number), Kind: tree.Persistent}},
	}}
}

// writes asks for writes of a session, in their order. Their keys are their numbers.
func (c *client) writes(id session.ID, numbers ...uint64) {
	c.Helper()
	for _, number := range numbers {
		if err := c.conn.Write(session.TreeWrite{Key: number, Write: numbered(id, number, 0)}); err != nil {
			c.Errorf("write %d: %v", number, err)
		}
	}
}

// reads asks whether there is an entry. The key is above those of writes.
func (c *client) reads(q tree.Query) error {
	c.keys++
	return c.conn.Read(session.TreeRead{Key: readKeys + c.keys, Query: q, Bytes: 100})
}

const readKeys = 1000

// hears requires that the client receives just this, in this order.
func (c *client) hears(want ...string) {
	c.Helper()
	if got := c.told(); !slices.Equal(got, want) {
		c.Errorf("told %q, want %q", got, want)
	}
}

// told receives the client's messages.
func (c *client) told() (all []string) {
	synctest.Wait()
	for {
		t, ok := c.conn.Next(time.Now())
		if !ok {
			return all
		}
		all = append(all, describe(&t))
	}
}

func describe(t *session.TreeMessage) string {
	a := t.Answer
	switch {
	case t.Lost:
		return "lost"
	case len(t.Events) > 0:
		return fmt.Sprint("event ", t.Events[0].Path)
	case a == nil:
		return "told"
	case a.Err != nil:
		return fmt.Sprintf("%s: %s", named(a.Key), reason(a.Err))
	case a.Wrote != nil && a.Wrote.Void:
		return named(a.Key) + ": void"
	case a.Wrote != nil && a.Wrote.Outcome.Refused != nil:
		return fmt.Sprintf("%s: %s", named(a.Key), a.Wrote.Outcome.Refused.Code)
	case a.Read != nil:
		return fmt.Sprintf("%s: as of %d", named(a.Key), a.Stamp.Index())
	default:
		return named(a.Key) + ": done"
	}
}

func named(key uint64) string {
	if key > readKeys {
		return fmt.Sprint("read ", key-readKeys)
	}
	return fmt.Sprint(key)
}

// reason returns a short text for an error.
func reason(err error) string {
	if gap, ok := errors.AsType[*tree.GapError](err); ok {
		return fmt.Sprint("gap ", gap.Expected)
	}
	if limit, ok := errors.AsType[*session.LimitError](err); ok {
		return limit.Name
	}
	for text, is := range map[string]error{
		"unknown": session.ErrOutcomeUnknown, "moved": session.ErrMoved, "expired": session.ErrExpired,
		"lagging": session.ErrLagging, "local": session.ErrLocalSession,
	} {
		if errors.Is(err, is) {
			return text
		}
	}
	return err.Error()
}
