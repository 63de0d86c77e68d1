// Package check holds a run's history against the invariants of the session protocol. It looks from outside: at what
// clients were told, and at what nodes applied.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// Bounds are what a run was configured with, and how patient the checker is.
type Bounds struct {
	// ExpiryInterval is the cluster's.
	ExpiryInterval time.Duration
	// Commit bounds a round and a commit while all that they need is well, and Calm when for long nothing was amiss
	// anywhere.
	Commit, Calm time.Duration
	// Settle is how long after a fault a cluster counts as calm: elections, Raft's back-off, clients that find their
	// way.
	Settle time.Duration
	// Interval is that of heartbeats, Quorum the number of voters that make a round good.
	Interval time.Duration
	Quorum   int
	// ReadOnlyAfter is for how long a node learns of no good round before it is read-only (N1).
	ReadOnlyAfter time.Duration
	// Serve is how long after the last fault every client has to be served at the latest.
	Serve time.Duration
}

// Violation is an invariant that did not hold.
type Violation struct {
	// Invariant is its short name, such as "I3".
	Invariant string
	// ID is the session concerned, 0 when it is none.
	ID session.ID
	// At is the time of the run.
	At   time.Duration
	Text string
}

// String returns the violation as one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s violated at %.4fs, session %s: %s", v.Invariant, v.At.Seconds(), v.ID, v.Text)
}

// Result is what Check found.
type Result struct {
	Violations []Violation
	// Checked counts by invariant how often it was really put to the test: a history in which nobody dies proves
	// nothing.
	Checked map[string]int
}

// Marks returns the violations that concern session id as remarks of its story.
func (r Result) Marks(id session.ID) []history.Mark {
	var marks []history.Mark
	for _, v := range r.Violations {
		if v.ID == id {
			marks = append(marks, history.Mark{At: v.At, Text: v.Invariant + " VIOLATED: " + v.Text})
		}
	}
	return marks
}

// Check holds events, in the order of time, against I1 to I8, N1 to N5, liveness after the last fault, and
// linearizability.
func Check(events []history.Event, b Bounds) Result {
	c := &checker{
		bounds: b, lives: make(map[session.ID]*life), result: Result{Checked: make(map[string]int)},
		terms: make(map[uint64]*term), began: make(map[processTerm]time.Duration),
		names: make(map[session.Node]string), started: make(map[string][]time.Duration),
		resets:   make(map[link][]time.Duration),
		trackers: make(map[uint64][]time.Duration),
		stalls:   make(map[string][]span),
		locals:   make(map[session.ID]*local), stopped: make(map[string][]time.Duration),
		worldly: make(map[string]bool),
		mayRead: make(map[string]bool), takeOvers: make(map[session.ID][]history.Event),
	}
	for _, e := range events {
		c.note(e)
	}
	for _, t := range c.terms {
		t.settle(b.Interval, c.trackers[t.number])
	}
	c.replicas(events)
	c.wanting(events)
	c.localSessions()
	c.modes()
	c.reads()
	for _, l := range c.sorted() {
		c.promises(l)
		c.early(l)
		c.late(l)
		c.served(l)
		c.again(l)
		c.fenced(l)
		c.told(l)
		c.linear(l)
	}
	return c.result
}

// life is all that is known of one session.
type life struct {
	id      session.ID
	timeout time.Duration
	// grants are the opens and resumes that were answered, touches those taken, promises all promises with an end.
	grants, touches, promises, closes []history.Event
	moved, gone, contexts, alive      []history.Event
	onlyReads                         []history.Event
	asked                             []history.Event // of its close
	// attempts are the closes that were sent, voices what proves a client alive to the owner that answered.
	attempts, voices []history.Event
	// applied are the opens and moves that nodes applied, ends the ends, decided the decisions of leaders that it
	// expires.
	applied, ends, decided []history.Event
	// silent is when it went silent for good, 0: never. A later grant is a new voice.
	silent time.Duration
	// end is the earliest time any node applied the end at.
	end *history.Event
}

type checker struct {
	bounds Bounds
	lives  map[session.ID]*life
	result Result

	// disturbed are the times of faults; one that has not ended yet has no end.
	disturbed []span
	terms     map[uint64]*term
	// began is when a node first applied an entry of a term.
	began map[processTerm]time.Duration
	// names are those of nodes, started when their processes began.
	names   map[session.Node]string
	started map[string][]time.Duration
	// stalls are when the processes of nodes stood, in the order of time.
	stalls map[string][]span
	// trackers are when those of a term began: a leader that stalls begins another (E1 starts anew).
	trackers map[uint64][]time.Duration
	// locals are the sessions that one node alone knew, at first at least.
	locals map[session.ID]*local
	// stopped are when the processes of nodes ended; elections the first trackers of terms; good all moments at which a
	// round may have become good.
	stopped   map[string][]time.Duration
	elections []history.Event
	good      []time.Duration
	// openings are the opens of clients, answered or not.
	openings []span
	// worldly are clients that held a session that is no local one.
	worldly map[string]bool
	// states are the answers with which nodes said how they are, shown those of reads. mayRead are nodes whose
	// read_only is on.
	states, shown []history.Event
	mayRead       map[string]bool
	// takeOvers are the calls that took a session over on purpose, by session.
	takeOvers map[session.ID][]history.Event
	// writes are the opens, resumes and closes that were refused, by whom is known.
	writes []history.Event
	// scope is added to the names of what is counted.
	scope string
	// resets are when the connections between two hosts were reset, both ways round.
	resets    map[link][]time.Duration
	decisions int
	// healed is when the last fault ended, finished when the run did.
	healed, finished time.Duration
}

type link struct{ one, other string }

type span struct {
	what, who  string
	from, till time.Duration
	open       bool
}

func (c *checker) fail(invariant string, l *life, at time.Duration, format string, args ...any) {
	c.result.Violations = append(c.result.Violations,
		Violation{Invariant: invariant, ID: l.id, At: at, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) checked(invariant string) { c.result.Checked[invariant+c.scope]++ }

func (c *checker) life(id session.ID) *life {
	l := c.lives[id]
	if l == nil {
		l = &life{id: id}
		c.lives[id] = l
	}
	return l
}

func (c *checker) sorted() []*life {
	lives := make([]*life, 0, len(c.lives))
	for _, l := range c.lives {
		lives = append(lives, l)
	}
	slices.SortFunc(lives, func(a, b *life) int { return cmp.Compare(a.id, b.id) })
	return lives
}

// note files one event.
func (c *checker) note(e history.Event) {
	c.answered(e)
	switch e.Kind {
	case history.FaultBegan:
		c.disturbed = append(c.disturbed, span{what: e.Text, who: e.Who, from: e.At, open: true})
	case history.FaultEnded:
		c.endFault(e)
	case history.Healed:
		c.healed = e.At
	case history.Finished:
		c.finished = e.At
	case history.Digest, history.Wants:
	case history.NodeStopped:
		c.stopped[e.Who] = append(c.stopped[e.Who], e.At)
	case history.NodeStarted:
		c.start(e)
	case history.TookOver:
		c.takeOvers[e.ID] = append(c.takeOvers[e.ID], e)
	case history.Shown: // answered has filed it
	case history.AppliedTerm:
		if at := (processTerm{e.Who, e.Term}); c.began[at] == 0 {
			c.began[at] = e.At
		}
	case history.Heard:
		c.listen(e)
	case history.Leads:
		if c.trackers[e.Term] == nil {
			c.elections = append(c.elections, e)
		}
		c.trackers[e.Term] = append(c.trackers[e.Term], e.At)
	case history.Stalled:
		c.stalls[e.Who] = append(c.stalls[e.Who], span{from: e.Asked, till: e.At})
	case history.Reset:
		c.reset(e)
	case history.Decided:
		c.decide(e)
	case history.Opened, history.Resumed, history.Touched, history.Promised, history.CloseAsked, history.Closed,
		history.ToldMoved, history.ToldGone, history.ContextEnded, history.Silent, history.Alive, history.Refused,
		history.UpgradeAsked, history.Upgraded, history.ToldElsewhere, history.OnlyReads:
		c.hear(e)
	case history.LocalOpened, history.LocalMoved, history.LocalEnded:
		c.local(e.ID).apply(e)
	case history.AppliedOpen, history.AppliedMove, history.AppliedEnd:
		c.life(e.ID).apply(e)
	}
}

func (c *checker) decide(e history.Event) {
	c.decisions++
	l := c.life(e.ID)
	l.decided = append(l.decided, e)
}

// reset files a reset of the link between two nodes, in both directions.
func (c *checker) reset(e history.Event) {
	for _, l := range []link{{e.Who, e.Text}, {e.Text, e.Who}} {
		c.resets[l] = append(c.resets[l], e.At)
	}
}

func (c *checker) start(e history.Event) {
	c.names[e.Node] = e.Who
	c.started[e.Who] = append(c.started[e.Who], e.At)
	c.mayRead[e.Who] = e.State.Mode == session.ModeReadOnly
}

func (c *checker) endFault(e history.Event) {
	for i := range c.disturbed {
		if s := &c.disturbed[i]; s.open && s.what == e.Text {
			s.open, s.till = false, e.At
			return
		}
	}
}

// hear files what a client knows: of a local session apart from what it knows of the global one that this may become.
func (c *checker) hear(e history.Event) {
	if e.Kind == history.Opened || e.Op == history.Open {
		c.openings = append(c.openings, span{who: e.Who, from: e.Asked, till: e.At})
	}
	switch {
	case e.ID == 0 || e.Op == history.Show:
	case e.Local:
		c.local(e.ID).hear(e)
	case e.Kind == history.ContextEnded && c.locals[e.ID] != nil: // it goes with either
		c.local(e.ID).life.hear(e)
		c.life(e.ID).hear(e)
	default:
		c.worldly[e.Who] = c.worldly[e.Who] || e.Kind == history.Opened || e.Kind == history.Resumed ||
			e.Kind == history.Upgraded
		c.life(e.ID).hear(e)
	}
}

// hear files what a client knows.
func (l *life) hear(e history.Event) {
	if e.Until != 0 {
		l.promises = append(l.promises, e)
	}
	if e.Op == history.Close || e.Kind == history.Closed {
		l.attempts = append(l.attempts, e)
	}
	switch e.Kind { //nolint:exhaustive // note has sorted the rest out
	case history.Opened, history.Resumed, history.Upgraded:
		l.grants, l.silent = append(l.grants, e), 0
		l.voices = append(l.voices, e)
	case history.Touched:
		l.touches = append(l.touches, e)
		l.voices = append(l.voices, e)
	case history.CloseAsked:
		l.asked = append(l.asked, e)
		e.Asked = e.At
		l.attempts = append(l.attempts, e)
	case history.Closed:
		l.closes = append(l.closes, e)
	case history.ToldMoved:
		l.moved = append(l.moved, e)
	case history.ToldGone:
		l.gone = append(l.gone, e)
	case history.ContextEnded:
		l.contexts = append(l.contexts, e)
	case history.Alive:
		l.alive = append(l.alive, e)
	case history.OnlyReads:
		l.onlyReads = append(l.onlyReads, e)
	case history.Silent:
		if e.Attachment >= newestGrant(l).Attachment { // else another client keeps the session alive
			l.silent = e.At
		}
	}
}

// apply files what a node did.
func (l *life) apply(e history.Event) {
	if e.Timeout != 0 {
		l.timeout = e.Timeout
	}
	if e.Kind != history.AppliedEnd {
		l.applied = append(l.applied, e)
		return
	}
	l.ends = append(l.ends, e)
	if l.end == nil {
		l.end = &e
	}
}

// made returns the first time that a node applied the open or the move that made an attachment.
func (l *life) made(attachment uint64) (history.Event, bool) {
	for _, a := range l.applied {
		if a.Attachment == attachment {
			return a, true
		}
	}
	return history.Event{}, false
}

// expired returns when the session's expiry was first applied.
func (l *life) expired() (time.Duration, bool) {
	if l.end == nil || l.end.Cause != session.CauseExpired {
		return 0, false
	}
	return l.end.At, true
}

// calm reports whether no fault was there from from, less the time that faults work on, till till. A cluster that
// starts is not calm either.
func (c *checker) calm(from, till time.Duration) bool {
	from -= c.bounds.Settle
	return from >= 0 && !slices.ContainsFunc(c.disturbed, func(s span) bool {
		return s.from <= till && (s.open || s.till >= from)
	})
}
