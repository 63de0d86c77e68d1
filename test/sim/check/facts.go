package check

import (
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// facts are the events of a history, collected by subject. note collects each event once; after the last event and
// closeTerms the facts change no more.
type facts struct {
	bounds Bounds
	sessions
	weather
	nodes
	leaders
	clients
	answers
	tellings
	ledgers
	freezeSpans
	// membership are operators' requests about members, and the lists that they got.
	membership []history.Event
}

// clients is everything known about clients beyond their sessions.
type clients struct {
	// openings are the opens of clients, answered or not.
	openings []span
	// worldly are clients that held a global session.
	worldly map[string]bool
	// takeOvers are the calls that deliberately took a session over, by session.
	takeOvers map[session.ID][]history.Event
	// frozen are the times when client processes were frozen.
	frozen []span
}

// note collects what clients did beside their sessions.
func (c *clients) note(e history.Event) {
	if e.Kind == history.Froze {
		c.frozen = append(c.frozen, span{who: e.Who, from: e.Sent, till: e.At})
	} else {
		c.takeOvers[e.ID] = append(c.takeOvers[e.ID], e)
	}
}

// answers are nodes' answers about themselves and their state, for all sessions.
type answers struct {
	// states are the answers in which a node described itself.
	states []history.Event
	// shown are the answered reads.
	shown []history.Event
	// entries are clients' writes and reads of the tree.
	entries []history.Event
	// contested are clients' calls of recipes, with their outcomes.
	contested []history.Event
	// budgets are the bounds that a heavy client filled and released, and the requests of others meanwhile.
	budgets []history.Event
	// backedUp are the backups that operators took.
	backedUp []history.Event
	// used are the calls of recipes that granted nothing.
	used []history.Event
	// writes are the refused opens, resumes and closes whose refusing node is known.
	writes []history.Event
}

// tellings are the events of watches, and the facts to check them.
type tellings struct {
	// watchEvents are the starts of watches and their events. treeChanges are what nodes recorded of the watched part
	// of the tree, and applied the changes of sessions, with their starts. views are reads of the watched part, by
	// clients and from mirrors.
	watchEvents, treeChanges, applied, views []history.Event
	// strayed are the moments at which watching clients lost or changed their connections, "" for all of them.
	strayed map[string][]time.Duration
}

// note collects the events of watches, and their causes.
func (t *tellings) note(e history.Event) {
	switch e.Kind { //nolint:exhaustive // the other kinds are not about watches
	case history.WatchBegan, history.WatchReceived, history.WatchLost, history.WatchProgress:
		t.watchEvents = append(t.watchEvents, e)
	case history.ConnectionChanged:
		t.strayed[e.Who] = append(t.strayed[e.Who], e.At)
	case history.TreeChanged:
		t.treeChanges = append(t.treeChanges, e)
	case history.NodeStarted, history.AppliedOpen, history.AppliedMove, history.AppliedEnd:
		t.applied = append(t.applied, e)
	case history.Viewed, history.Mirrored:
		t.views = append(t.views, e)
	}
}

func newFacts(b Bounds) *facts {
	return &facts{
		bounds:   b,
		sessions: sessions{lives: make(map[session.ID]*life), locals: make(map[session.ID]*local)},
		weather:  weather{calmAfter: b.Recovery},
		nodes: nodes{
			interval: b.Interval, names: make(map[session.Node]string), mayRead: make(map[string]bool),
			started: make(map[string][]time.Duration), stopped: make(map[string][]time.Duration),
			stalls: make(map[string][]span), resets: make(map[pair][]time.Duration),
			refusals: make(map[pair][]span),
		},
		leaders: leaders{
			interval: b.Interval, quorum: b.Quorum, terms: make(map[uint64]*term),
			began: make(map[processTerm]time.Duration), trackers: make(map[uint64][]time.Duration),
		},
		tellings:    tellings{strayed: make(map[string][]time.Duration)},
		freezeSpans: freezeSpans{byNode: make(map[string][]freezeSpan)},
		clients:     clients{worldly: make(map[string]bool), takeOvers: make(map[session.ID][]history.Event)},
	}
}

// note collects one event. It only checks what the collections cannot hold.
func (f *facts) note(e history.Event, v *verdict) {
	f.file(e)
	switch e.Kind {
	case history.FaultBegan:
		f.beginFault(e)
	case history.FaultEnded:
		f.endFault(e)
	case history.Healed:
		f.healed = e.At
	case history.Finished:
		f.finished = e.At
	case history.NodeStopped, history.NodeStarted, history.Stalled, history.Reset, history.Refuses, history.Admits:
		f.nodes.note(e)
	case history.AppliedTerm:
		f.begin(e)
	case history.Leads:
		if other := f.lead(e); other != "" {
			v.fail("R3", 0, e.At, "term %d has two leaders, %s and %s", e.Term, other, e.Who)
		}
	case history.AnswerReceived:
		if other := f.listen(e); other != "" {
			v.fail("R3", 0, e.At, "term %d has two leaders, %s and %s", e.Term, other, e.Who)
		}
	case history.Decided:
		f.decisions++
		l := f.life(e.ID)
		l.decided = append(l.decided, e)
	case history.TookOver, history.Froze:
		f.clients.note(e)
	case history.Opened, history.Resumed, history.Touched, history.Promised, history.CloseSent, history.Closed,
		history.LearntMoved, history.LearntGone, history.ContextEnded, history.Silent, history.Alive, history.Refused,
		history.UpgradeSent, history.Upgraded, history.LearntElsewhere, history.OnlyReads:
		f.receive(e)
	case history.LocalOpened, history.LocalMoved, history.LocalEnded:
		f.local(e.ID).apply(e)
	case history.AppliedOpen, history.AppliedMove, history.AppliedEnd:
		f.life(e.ID).apply(e)
	case history.Wrote, history.WriteLost, history.TreeRead:
		f.entries = append(f.entries, e)
	case history.Digest, history.Wants, history.Shown, // for replicas and liveness; answers has Shown
		history.FreezeBegan, history.Thawed, history.Killed, history.Extended, history.Kept, history.Configured,
		history.Wanted, history.Changed, history.Listed, history.ConnectionChanged: // collected by file
	case history.WatchBegan, history.WatchReceived, history.WatchLost, history.WatchProgress, history.Viewed,
		history.Mirrored, history.TreeChanged, history.Called, history.Found, history.Committed, // in tellings and ledgers
		history.Awaits, history.Granted, history.GaveUp, history.Works, history.Rests, history.Released, history.Stored,
		history.Fenced, history.FenceChecked, history.QueueRead, history.Broke, history.Used,
		history.BudgetExhausted, history.BudgetReleased, history.BudgetAvailable, history.BudgetAbandoned, history.Probed,
		history.BackedUp: // collected by answers
	}
	f.lagging(e, v)
}

// file collects events by their kind, and operators' acts.
func (f *facts) file(e history.Event) {
	f.answers.note(e)
	f.tellings.note(e)
	f.ledgers.note(e)
	f.freezeSpans.note(e)
	switch e.Kind { //nolint:exhaustive // the others are collected elsewhere
	case history.Configured:
		f.configure(e)
	case history.Wanted, history.Changed, history.Listed:
		f.membership = append(f.membership, e)
	case history.Killed, history.Extended, history.Kept:
		f.life(e.ID).act(e)
	}
}

// lagging counts reads that a node refused because it had not applied the client's index (N4 seen index).
func (*facts) lagging(e history.Event, v *verdict) {
	if e.Kind == history.Refused && e.Op == history.Show && e.Lagging {
		v.checked("N4 lagging")
	}
}

// note collects nodes' reports about themselves, and answers and refusals of reads.
func (a *answers) note(e history.Event) {
	if e.State.Node != 0 && e.Kind != history.NodeStarted {
		a.states = append(a.states, e)
	}
	switch {
	case e.Budget != nil || e.Kind == history.Probed:
		a.budgets = append(a.budgets, e)
	case e.Kind == history.BackedUp:
		a.backedUp = append(a.backedUp, e)
	case e.Claim != nil:
		a.contested = append(a.contested, e)
	case e.Kind == history.Used:
		a.used = append(a.used, e)
	case e.Kind == history.Shown:
		a.shown = append(a.shown, e)
	case e.Kind == history.Refused && e.Node != 0 &&
		(e.Op == history.Open || e.Op == history.Resume || e.Op == history.Close):
		a.writes = append(a.writes, e)
	}
}

// receive collects what a client knows. Facts about a local session are kept apart from those about the global session
// that it may become.
func (f *facts) receive(e history.Event) {
	if e.Kind == history.Opened || e.Op == history.Open {
		f.openings = append(f.openings, span{who: e.Who, from: e.Sent, till: e.At})
	}
	switch {
	case e.ID == 0 || e.Op == history.Show:
	case e.Local:
		f.local(e.ID).receive(e)
	case e.Kind == history.ContextEnded && f.locals[e.ID] != nil: // of both
		f.local(e.ID).life.receive(e)
		f.life(e.ID).receive(e)
	default:
		f.worldly[e.Who] = f.worldly[e.Who] || e.Kind == history.Opened || e.Kind == history.Resumed ||
			e.Kind == history.Upgraded
		f.life(e.ID).receive(e)
	}
}
