package core

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	"holdfast/client/internal/writes"
	"holdfast/session"
	"holdfast/tree"
)

// Errors of reads and writes of the tree; the SDK shows them under its own names.
var (
	// ErrNoEffect: the write had no effect and will have none.
	ErrNoEffect = errors.New("the write had no effect")
	// ErrResultGone: the write took effect, if only as a refusal, and its result is gone (X9).
	ErrResultGone = errors.New("the write took effect, and its result is gone")
)

// maxReads bounds the reads of a connection that wait for answers. Others wait until there is room.
const maxReads = 512

// forest is what a client has to do with the tree. A client that does nothing with it has none.
type forest struct {
	// calls are the reads that have no answer, and reads those of them without a session that wait to be sent.
	calls map[*TreeCall]struct{}
	reads []*readBody
	// gone is how many callers have given up since reads had none of them.
	gone int
	// busy are sessions that may have something to send, paused those that may have at a moment.
	busy   map[*Session]struct{}
	paused map[*Session]time.Time
	// unacked are sessions with results that the cluster does not know to have arrived.
	unacked map[*Session]struct{}
	watches watches
}

// TreeCall is a caller that waits for a read or a write of the tree. It is answered once.
type TreeCall struct {
	// Handle is the caller's.
	Handle any
	// Transaction and Will are those of a write.
	Transaction tree.Transaction
	Will        *tree.Will
	// UntilAnswered has the write sent again, also by a client that gives up what is in flight on a lost connection.
	UntilAnswered bool
	// Trace is the caller's place in a trace, nil if it is in none.
	Trace *session.Trace
	// Query is that of a read, and Watch the one-shot that it sets; nil for none.
	Query tree.Query
	Watch *Watch

	h     *Session // nil for a read without a session
	write *writes.Write
	// after is the number of writes that were called before in the session; of a write, with itself.
	after   uint64
	lagged  int // how often a node was behind
	settled bool
	last    error // what stood in the way last
}

// Done is the answer to a [TreeCall].
type Done struct {
	Call   *TreeCall
	Result tree.Result
	Answer tree.Answer
	Err    error
}

// TreeEffects are the part of [Effects] about the tree.
type TreeEffects struct {
	// Stamp is the highest stamp of the tree that a node has told, as Seen.
	Stamp tree.Stamp
	// Heard are what watches hear. It is told before the answers to reads and writes (G1).
	Heard []Heard
	// Done are the answers to reads and writes of the tree.
	Done []Done
}

// GiveUpTree says that a caller does not wait any longer, because of Cause.
type GiveUpTree struct {
	Call  *TreeCall
	Cause error
}

func (in GiveUpTree) happen(c *Core) {
	call := in.Call
	if call.settled {
		return
	}
	call.last = errors.Join(in.Cause, c.obstacle(in.Cause, call.last))
	if call.write == nil {
		c.done(call, Done{Err: call.last})
		c.forest.forgetRead(call)
		return
	}
	c.fates(call.h.branch.queue.GiveUp(call.write))
	c.busy(call.h)
}

// GiveUpWatch ends a watch whose reader waits no longer, because of Cause. The watch hears why, and what stands in its
// way if it has not begun.
type GiveUpWatch struct {
	Watch *Watch
	Cause error
}

func (in GiveUpWatch) happen(c *Core) {
	if c.forest == nil {
		return
	}
	e := c.forest.watches.all[in.Watch.Spec]
	switch {
	case e == nil:
		return
	case slices.Contains(e.news, in.Watch):
		c.hear(in.Watch, Heard{Err: errors.Join(in.Cause, c.obstacle(in.Cause, e.last))})
	case slices.Contains(e.subs, in.Watch):
		c.hear(in.Watch, Heard{Err: in.Cause})
	}
	DropWatch{in.Watch}.happen(c)
}

// obstacle returns what stood in the way of a caller that gives up because of cause: what a node has told it last, or
// what stands in the way of all.
func (c *Core) obstacle(cause, told error) error {
	switch {
	case told != nil:
		return told
	default:
		return c.stood(cause)
	}
}

// trees returns the forest, which the first call makes.
func (l *ledger) trees() *forest {
	if l.forest == nil {
		l.forest = &forest{
			calls: make(map[*TreeCall]struct{}), busy: make(map[*Session]struct{}), paused: make(map[*Session]time.Time),
			unacked: make(map[*Session]struct{}), watches: watches{all: make(map[tree.WatchSpec]*watched)},
		}
	}
	return l.forest
}

// done answers a call, if it has not been answered.
func (l *ledger) done(call *TreeCall, d Done) {
	if call.settled {
		return
	}
	call.settled, d.Call = true, call
	delete(l.forest.calls, call)
	if call.h != nil && call.h.branch != nil {
		delete(call.h.branch.calls, call)
	}
	l.effects.Done = append(l.effects.Done, d)
}

// saw notes a stamp that a node has told.
func (l *ledger) saw(s tree.Stamp) { l.effects.Stamp = max(l.effects.Stamp, s) }

// busy has a session looked at, for what it may have to send.
func (l *ledger) busy(h *Session) {
	if h.branch != nil && l.holds(h) {
		l.forest.busy[h] = struct{}{}
	}
}

// needsNode reports whether a connection is needed though there is no session.
func (f *forest) needsNode() bool { return f != nil && (len(f.calls) > 0 || len(f.watches.all) > 0) }

// needsLeader reports whether anything waits that a read-only node refuses.
func (f *forest) needsLeader() bool {
	if f == nil {
		return false
	}
	for call := range f.calls {
		if !call.Query.Options.AllowStale {
			return true
		}
	}
	return len(f.watches.all) > 0 || len(f.busy) > 0 || len(f.paused) > 0
}

// wakesAt returns when a session may send something; zero for never.
func (f *forest) wakesAt() (at time.Time) {
	if f == nil {
		return at
	}
	for _, one := range f.paused {
		at = route.Earliest(at, one)
	}
	return at
}

// tend sends what can be sent now.
func (c *Core) tend() {
	f := c.forest
	c.tendWatches() // first: what they are owed holds up reads
	for h, at := range f.paused {
		if !c.now.Before(at) {
			delete(f.paused, h)
			c.busy(h)
		}
	}
	for _, h := range slices.SortedFunc(maps.Keys(f.busy), byID) {
		if c.tendBranch(h) {
			delete(f.busy, h)
		}
	}
	c.tendReads()
}

// knowsState reports whether the node of c has told its state. Otherwise it asks the node: the client may go to a better
// one instead, before it sends anything of the tree.
func (q *requests) knowsState(c *Conn) bool {
	if !c.heard && !c.window.Asked() {
		q.askAlive(c)
	}
	return c.heard
}

// beside sends b on c at once.
func (q *requests) beside(c *Conn, b body) { q.send(c, c.window.Beside(b)) }

// uproot takes back the reads that were on their way on a connection that is dropped.
func (m *moves) uproot(c *Conn) {
	if m.forest == nil {
		return
	}
	var back []*window.Request
	for _, all := range []func(func(*window.Request) bool){c.window.InFlight(), c.window.Queued()} {
		for r := range all {
			switch b := r.Body.(type) {
			case *readBody:
				back = append(back, r)
			case *writeBody:
				m.unknownWrite(b)
			}
		}
	}
	slices.SortFunc(back, func(x, y *window.Request) int { return int(int64(y.Seq) - int64(x.Seq)) })
	for _, r := range back {
		if b, ok := r.Body.(*readBody); ok {
			m.readAgain(b)
		}
	}
}

// unknownWrite gives a write up whose answer cannot come on its connection any more, if the client is configured so and
// the caller has not asked for the answer.
func (m *moves) unknownWrite(b *writeBody) {
	call, ok := b.send.Body.(*TreeCall)
	if m.cfg.FailInFlight && ok && !call.UntilAnswered && !call.settled && m.holds(b.h) {
		m.fates(b.h.branch.queue.GiveUp(call.write))
	}
}

// readAgain has a read sent anew: one of a session behind the writes that were called before it, one without a session
// before those that wait.
func (l *ledger) readAgain(b *readBody) {
	h := b.call.h
	switch {
	case b.call.settled:
	case h == nil:
		l.forest.reads = slices.Insert(l.forest.reads, 0, b)
	case l.holds(h):
		at, _ := slices.BinarySearchFunc(h.branch.reads, b.call.after, func(r *readBody, after uint64) int {
			return cmp.Compare(r.call.after, after)
		})
		h.branch.reads = slices.Insert(h.branch.reads, at, b)
		l.busy(h)
	}
}

// fell ends what is left of the tree with the client.
func (c *Core) fell() {
	if c.forest == nil {
		return
	}
	for call := range c.forest.calls {
		c.done(call, Done{Err: session.ErrClosed})
	}
	for _, e := range c.forest.watches.sorted() {
		c.endWatches(e, session.ErrClosed)
	}
}
