package check

import (
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// facts is what a history tells, filed by its subject. note files each event once; after the last event and settleTerms
// the facts change no more.
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
	frosts
	// membership is what operators wanted of the members, and were shown of them.
	membership []history.Event
}

// clients is what is known of clients beyond their sessions.
type clients struct {
	// openings are the opens of clients, answered or not.
	openings []span
	// worldly are clients that held a session that is no local one.
	worldly map[string]bool
	// takeOvers are the calls that took a session over on purpose, by session.
	takeOvers map[session.ID][]history.Event
	// frozen are the times when client processes stood.
	frozen []span
}

// note files what clients did beside their sessions.
func (c *clients) note(e history.Event) {
	if e.Kind == history.Froze {
		c.frozen = append(c.frozen, span{who: e.Who, from: e.Asked, till: e.At})
	} else {
		c.takeOvers[e.ID] = append(c.takeOvers[e.ID], e)
	}
}

// answers are what nodes told about themselves and their state, whatever session it was about.
type answers struct {
	// states are the answers in which a node described itself.
	states []history.Event
	// shown are the answered reads.
	shown []history.Event
	// entries are what clients wrote to the tree, and read of it.
	entries []history.Event
	// contested is what clients asked of recipes, and what became of it.
	contested []history.Event
	// rooms is what a heavy client found full and empty, and what others were served meanwhile.
	rooms []history.Event
	// backedUp are the backups that operators took.
	backedUp []history.Event
	// used are the calls of recipes that granted nothing.
	used []history.Event
	// writes are the refused opens, resumes and closes whose refusing node is known.
	writes []history.Event
}

// tellings are what watches were told, and what can be known of it.
type tellings struct {
	// told are the beginnings of watches and what they were told. grown is what nodes recorded of the watched part of the
	// tree, and applied what they did to sessions, with their starts. views are reads of the watched part, by clients and
	// from mirrors.
	told, grown, applied, views []history.Event
	// strayed are the moments at which watching clients lost their connections or went on others, "" for all of them.
	strayed map[string][]time.Duration
}

// note files what watches were told, and what happened.
func (t *tellings) note(e history.Event) {
	switch e.Kind { //nolint:exhaustive // the other kinds are not about watches
	case history.WatchBegan, history.WatchHeard, history.WatchLost, history.WatchTold:
		t.told = append(t.told, e)
	case history.Strayed:
		t.strayed[e.Who] = append(t.strayed[e.Who], e.At)
	case history.TreeGrew:
		t.grown = append(t.grown, e)
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
		weather:  weather{patience: b.Settle},
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
		tellings: tellings{strayed: make(map[string][]time.Duration)},
		frosts:   frosts{frosts: make(map[string][]frost)},
		clients:  clients{worldly: make(map[string]bool), takeOvers: make(map[session.ID][]history.Event)},
	}
}

// note files one event. It judges only what the files cannot hold.
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
	case history.Heard:
		if other := f.listen(e); other != "" {
			v.fail("R3", 0, e.At, "term %d has two leaders, %s and %s", e.Term, other, e.Who)
		}
	case history.Decided:
		f.decisions++
		l := f.life(e.ID)
		l.decided = append(l.decided, e)
	case history.TookOver, history.Froze:
		f.clients.note(e)
	case history.Opened, history.Resumed, history.Touched, history.Promised, history.CloseAsked, history.Closed,
		history.ToldMoved, history.ToldGone, history.ContextEnded, history.Silent, history.Alive, history.Refused,
		history.UpgradeAsked, history.Upgraded, history.ToldElsewhere, history.OnlyReads:
		f.hear(e)
	case history.LocalOpened, history.LocalMoved, history.LocalEnded:
		f.local(e.ID).apply(e)
	case history.AppliedOpen, history.AppliedMove, history.AppliedEnd:
		f.life(e.ID).apply(e)
	case history.Wrote, history.WriteLost, history.Looked:
		f.entries = append(f.entries, e)
	case history.Digest, history.Wants, history.Shown, // replicas and liveness look for these, answers has filed Shown
		history.Frosted, history.Thawed, history.Killed, history.Extended, history.Kept, history.Configured,
		history.Wanted, history.Changed, history.Listed, history.Strayed: // file has filed them
	case history.WatchBegan, history.WatchHeard, history.WatchLost, history.WatchTold, history.Viewed, history.Mirrored,
		history.TreeGrew, history.Called, history.Found, history.Committed, // tellings and ledgers have filed them
		history.Awaits, history.Granted, history.Forgoes, history.Works, history.Rests, history.Cedes, history.Stored,
		history.Fenced, history.Vouched, history.Lined, history.Broke, history.Used,
		history.Filled, history.Emptied, history.Roomy, history.Unasked, history.Probed,
		history.BackedUp: // answers has filed them
	}
	f.lagging(e, v)
}

// file files what is filed by its kind, and what operators did.
func (f *facts) file(e history.Event) {
	f.answers.note(e)
	f.tellings.note(e)
	f.ledgers.note(e)
	f.frosts.note(e)
	switch e.Kind { //nolint:exhaustive // the others are filed elsewhere
	case history.Configured:
		f.configure(e)
	case history.Wanted, history.Changed, history.Listed:
		f.membership = append(f.membership, e)
	case history.Killed, history.Extended, history.Kept:
		f.life(e.ID).act(e)
	}
}

// lagging counts reads that a node refused because it had not applied what the client had seen (N4).
func (*facts) lagging(e history.Event, v *verdict) {
	if e.Kind == history.Refused && e.Op == history.Show && e.Lagging {
		v.checked("N4 lagging")
	}
}

// note files what nodes told of themselves, and what was shown or refused.
func (a *answers) note(e history.Event) {
	if e.State.Node != 0 && e.Kind != history.NodeStarted {
		a.states = append(a.states, e)
	}
	switch {
	case e.Room != nil || e.Kind == history.Probed:
		a.rooms = append(a.rooms, e)
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

// hear files what a client knows. What it knows of a local session is kept apart from what it knows of the global
// session that the local one may become.
func (f *facts) hear(e history.Event) {
	if e.Kind == history.Opened || e.Op == history.Open {
		f.openings = append(f.openings, span{who: e.Who, from: e.Asked, till: e.At})
	}
	switch {
	case e.ID == 0 || e.Op == history.Show:
	case e.Local:
		f.local(e.ID).hear(e)
	case e.Kind == history.ContextEnded && f.locals[e.ID] != nil: // it belongs to both
		f.local(e.ID).life.hear(e)
		f.life(e.ID).hear(e)
	default:
		f.worldly[e.Who] = f.worldly[e.Who] || e.Kind == history.Opened || e.Kind == history.Resumed ||
			e.Kind == history.Upgraded
		f.life(e.ID).hear(e)
	}
}
