package check

import (
	"slices"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// Local sessions of n2: one is resumed there, falls silent and expires; one is closed; one becomes global, is moved,
// falls silent and expires. Another local session is of n3, whose process ends.
const (
	expires2 = session.ID(0x0200000000010000) + iota
	closed2
	lifted2
	left3 = session.ID(0x0300000000010000)
)

// goodLocal is a run with local sessions in which nothing is wrong.
func goodLocal() []history.Event {
	from := func(k history.Kind, seconds float64, id session.ID, attachment uint64, sent,
		until float64,
	) history.Event {
		e := history.Event{
			At: at(seconds), Kind: k, Who: "k1", Node: id.Node(), ID: id, Attachment: attachment,
			Local: true, Timeout: timeout,
		}
		if sent != 0 {
			e.Sent, e.Timeout = at(sent), 0
		}
		e.Until = at(until)
		return e
	}
	node := func(k history.Kind, seconds float64, id session.ID, attachment uint64) history.Event {
		e := from(k, seconds, id, attachment, 0, 0)
		e.Who = "n2"
		if id == left3 {
			e.Who = "n3"
		}
		return e
	}
	done := func(k history.Kind, seconds float64, id session.ID, attachment uint64, cause session.Cause,
		age float64,
	) history.Event {
		e := node(k, seconds, id, attachment)
		e.Cause, e.Certificate = cause, &session.Certificate{Cause: cause, LastTouchAge: at(age)}
		return e
	}
	global := func(e history.Event, index uint64) history.Event {
		e.Local, e.Index = false, index
		if index != 0 {
			e.Term = 2
		}
		return e
	}
	other := func(e history.Event, who string) history.Event {
		e.Who = who
		return e
	}
	moved := global(node(history.AppliedMove, 76, lifted2, 6), 31)
	moved.Node = 1
	resumed := global(from(history.Resumed, 76.01, lifted2, 6, 75.9, 79.5), 0)
	resumed.Node = 1
	end := global(done(history.AppliedEnd, 80.51, lifted2, 6, session.CauseExpired, 4.25), 32)
	end.Certificate.Term, end.Certificate.Cause, end.Node = 2, 0, 1
	fell := global(from(history.Silent, 76.2, lifted2, 6, 0, 0), 0)
	silent := from(history.Silent, 64.1, expires2, 2, 0, 0)
	restarted := history.Event{At: at(82), Kind: history.NodeStarted, Who: "n3", Node: 3}
	reported := from(history.LearntMoved, 63.5, expires2, 1, 63.4, 0)
	reported.Op = history.Touch
	gone := from(history.LearntGone, 69, expires2, 2, 0, 0)
	gone.Certificate = &session.Certificate{Cause: session.CauseExpired}
	h := []history.Event{
		{At: at(19.9), Kind: history.Leads, Who: "n1", Term: 2},
		node(history.LocalOpened, 60, expires2, 1),
		from(history.Opened, 60.001, expires2, 1, 59.999, 63.9),
		from(history.Touched, 62.002, expires2, 1, 62, 65.9),
		node(history.LocalMoved, 63, expires2, 2),
		from(history.Resumed, 63.001, expires2, 2, 62.999, 66.9),
		reported,
		{At: at(63.6), Kind: history.Leads, Who: "n3", Term: 3},
		from(history.Touched, 64.002, expires2, 2, 64, 67.9),
		from(history.Promised, 64.2, expires2, 2, 0, 67.9),
		silent,
		{At: at(67.9), Kind: history.ContextEnded, Who: "k1", ID: expires2},
		done(history.LocalEnded, 68.25, expires2, 2, session.CauseExpired, 4.249),
		gone,

		node(history.LocalOpened, 61, closed2, 1),
		from(history.Opened, 61.001, closed2, 1, 60.999, 64.9),
		done(history.LocalEnded, 62, closed2, 1, session.CauseClosed, 1),
		from(history.Closed, 62.001, closed2, 1, 61.999, 0),

		node(history.LocalOpened, 70, lifted2, 1),
		from(history.Opened, 70.001, lifted2, 1, 69.999, 73.9),
		from(history.UpgradeSent, 71, lifted2, 1, 0, 0),
		from(history.Touched, 71.202, lifted2, 1, 71.2, 74.7),
		global(node(history.AppliedOpen, 71.5, lifted2, 5), 30),
		other(global(node(history.AppliedOpen, 71.501, lifted2, 5), 30), "n1"),
		global(from(history.Upgraded, 71.51, lifted2, 5, 71, 74.9), 0),
		other(global(from(history.Upgraded, 71.51, lifted2, 5, 71.4, 74.9), 0), "k2"),
		from(history.Touched, 73.002, lifted2, 1, 73, 76.9),
		moved, other(moved, "n1"), resumed, fell,
		{At: at(80.5), Kind: history.Decided, Who: "n1", ID: lifted2, Attachment: 6, Term: 2},
		end, other(end, "n1"),

		node(history.LocalOpened, 77, left3, 1),
		from(history.Opened, 77.001, left3, 1, 76.999, 80.9),
		{At: at(79), Kind: history.NodeStopped, Who: "n3"},
		restarted,
		from(history.LearntGone, 83, left3, 1, 82.9, 0),
	}
	for i := range h {
		if h[i].Kind == history.Silent || h[i].Kind == history.UpgradeSent || h[i].Kind == history.Promised ||
			h[i].Kind == history.LearntGone {
			h[i].Timeout, h[i].Node = 0, 0
		}
	}
	return sorted(append(good(), h...))
}

func TestGoodHistoryOfLocalSessionsHoldsAndIsChecked(t *testing.T) {
	h := goodLocal()
	r := Check(h, bounds())
	for _, v := range r.Violations {
		t.Errorf("%s in:\n%s", v, history.Story(h, v.ID, r.Marks(v.ID)...))
	}
	for _, name := range []string{
		"I1 local", "I2 local", "I2 local silent", "I3 local", "I3 upgraded", "I4 local", "M3 local", "T2 local",
		"closes local", "I4 local token", "E5 local",
		"reported moved local", "I7 local", "I7 local order", "context local", "linear local", "L1 leader change",
		"L1 process", "L7", "L7 at once", "L8",
	} {
		if r.Checked[name] == 0 {
			t.Errorf("%s was not put to the test", name)
		}
	}
}

func TestLegalHistoryOfLocalSessionsHolds(t *testing.T) {
	unsure := history.Event{
		At: at(71.3), Kind: history.Refused, Op: history.Upgrade, Unknown: true, Who: "k3", ID: lifted2, Attachment: 1,
		Local: true, Sent: at(71.1),
	}
	tests := []struct {
		name, counts string
		plant        plant
	}{
		{"a promise while no round is good", "L1 no leader", unheard(61, 67, 1, 2, 3)},
		{"an upgrade whose outcome one requester does not learn", "L7 unknown", add(unsure)},
		{
			"an upgrade across a change of leader", "L7 fail-over",
			add(history.Event{At: at(71.2), Kind: history.Leads, Who: "n3", Term: 4}),
		},
		{
			"an end that is reported with a local token", "E5 local token",
			add(history.Event{At: at(90), Kind: history.LearntGone, Who: "k1", ID: lifted2, Attachment: 1, Local: true}),
		},
		{"held without a promise while it is closed with a local token", "liveness", add(
			history.Event{At: at(76.1), Kind: history.CloseSent, Who: "k3", ID: lifted2, Attachment: 1, Local: true},
			history.Event{At: at(76.15), Kind: history.Alive, Who: "k3", ID: lifted2, Attachment: 6})},
		{"released when the promise is over", "L6", add(elsewhere("k1", 65.95))},
		{"released within the promise for an open", "L6", add(elsewhere("k1", 65),
			history.Event{At: at(65.1), Kind: history.Refused, Op: history.Open, Who: "k1", Sent: at(64.5)})},
		{
			"released for an open that was answered within a second before the last promise", "L6",
			add(lastOpen(63.3)...),
		},
		{"released within the promise while it is closed", "L6", add(elsewhere("k3", 65),
			history.Event{
				At: at(64.2), Kind: history.Promised, Who: "k3", ID: expires2, Attachment: 2, Local: true,
				Until: at(67.9),
			},
			history.Event{
				At: at(64.5), Kind: history.CloseSent, Who: "k3", ID: expires2, Attachment: 2, Local: true,
			})},
		{"a lapse while the node itself is cut off", "context local", all(fault("isolate n2", "n2", 62, 66),
			drop(history.Silent), lapse(65))},
		{
			"its node was suspended when a fault may still have held back its touches", "I2 local silent",
			all(fault("delay from client", "k1", 61.5, 62), stoodUntil(70.1)),
		},
		{
			"a lapse of a client that went silent, and again when it was notified", "context local",
			all(
				fault("kill n1", "n1", 62, 66), lapse(67.95),
				unless(func(e history.Event) bool { return e.ID == expires2 && e.Kind == history.Resumed }),
				add(history.Event{
					At: at(95), Kind: history.Silent, Who: "h9", ID: expires2, Attachment: 2, Local: true,
				})),
		},
		{"a lapse when another client took it", "context local", all(drop(history.Silent), lapse(63.1))},
		{
			"ended before its slow node could report the touches that were handed over (T5, L8)", "I3 upgraded",
			all(
				storm(30, 100), unless(func(e history.Event) bool {
					return e.ID == lifted2 && (e.Kind == history.AppliedMove || e.Kind == history.Resumed ||
						e.Kind == history.Upgraded)
				}),
				of(lifted2, history.AppliedOpen, func(e *history.Event) {
					if e.Who == "n2" {
						e.ApplyDelay = at(5.45) // until after the decision
					}
				}),
				of(lifted2, history.Decided, func(e *history.Event) { e.Attachment, e.At = 5, at(76.9) }),
				of(lifted2, history.AppliedEnd, func(e *history.Event) {
					e.Attachment, e.Node, e.At, e.Certificate.LastTouchAge = 5, 2, at(76.95), at(5.3)
				})),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := sorted(tt.plant(goodLocal()))
			r := Check(h, bounds())
			for _, v := range r.Violations {
				t.Errorf("%s in:\n%s", v, history.Story(h, v.ID, r.Marks(v.ID)...))
			}
			if r.Checked[tt.counts] == 0 {
				t.Errorf("%s was not put to the test: %v", tt.counts, r.Checked)
			}
		})
	}
}

// elsewhere makes a client give up the session that expires on n2.
func elsewhere(who string, seconds float64) history.Event {
	return history.Event{
		At: at(seconds), Kind: history.LearntElsewhere, Who: who, ID: expires2, Attachment: 2,
		Local: true,
	}
}

// stoodUntil is a stall of n2 after which the session that expires, touched before it, ends at a moment.
func stoodUntil(seconds float64) plant {
	return all(
		add(history.Event{At: at(64.9), Kind: history.Stalled, Who: "n2", Sent: at(64.2)}),
		of(expires2, history.LocalEnded, func(e *history.Event) {
			e.At, e.Certificate.LastTouchAge = at(seconds), at(seconds-64.001)
		}),
		of(expires2, history.LearntGone, func(e *history.Event) { e.At = at(seconds + 0.01) }))
}

// lapse ends the context of the session that expires, of a client that has only local sessions.
func lapse(seconds float64) plant {
	return add(history.Event{At: at(seconds), Kind: history.ContextEnded, Who: "h9", ID: expires2})
}

// TestWrongLocalSessionsAreFound plants violations among many faults, which must not excuse them.
func TestWrongLocalSessionsAreFound(t *testing.T) {
	touch := func(id session.ID, attachment uint64, sent float64) history.Event {
		return history.Event{
			At: at(sent + 0.002), Kind: history.Touched, Who: "k1", Node: id.Node(), ID: id,
			Attachment: attachment, Local: true, Sent: at(sent),
		}
	}
	closing := func(id session.ID, attachment uint64, sent float64) history.Event {
		e := touch(id, attachment, sent)
		e.Kind = history.Closed
		return e
	}
	opens := func(seconds float64, who string, id session.ID) history.Event {
		return history.Event{
			At: at(seconds), Kind: history.LocalOpened, Who: who, Node: session.Node(who[1] - '0'), ID: id,
			Attachment: 1, Local: true, Timeout: timeout,
		}
	}
	gone := func(id session.ID, seconds float64) history.Event {
		return history.Event{At: at(seconds), Kind: history.LearntGone, Who: "k1", ID: id, Attachment: 1, Local: true}
	}
	weather := storm(30, 100)
	tests := []wrong{
		// I1 to I3, and L8.
		{
			"ended within a timeout of a touch (L3)", "I1", "its node ended it",
			all(weather, of(expires2, history.LocalEnded, func(e *history.Event) { e.At = at(67.99) })),
		},
		{"a certificate of a touch within the timeout", "I1", "its certificate says", of(expires2, history.LocalEnded,
			func(e *history.Event) {
				e.Certificate.LastTouchAge = 3999 * time.Millisecond
			})},
		{
			"ended late by its node's last message (L3)", "I2", "after its last touch",
			all(weather, of(expires2, history.LocalEnded, func(e *history.Event) {
				e.Certificate.LastTouchAge = 4500 * time.Millisecond
			})),
		},
		{"ended late", "I2", "should have ended it by", of(expires2, history.LocalEnded, func(e *history.Event) {
			e.At = at(68.7)
		})},
		{
			"ended late for a node that was suspended", "I2", "should have ended it by",
			all(fault("delay from client", "k1", 61.5, 62), stoodUntil(71.5)),
		},
		{"never ended", "I2", "and never did", all(drop(history.LocalEnded), drop(history.LearntGone))},
		{"ended with its process alone, much later", "I2", "should have ended it by", all(drop(history.LocalEnded),
			drop(history.LearntGone),
			add(history.Event{At: at(90), Kind: history.NodeStopped, Who: "n2", Node: 2}))},
		{"opened for no client, and never ended", "I2", "and never did", add(opens(85, "n2", lifted2+1))},
		{
			"ended within a promise (L4)", "I3", "before the end of a promise",
			all(weather, of(expires2, history.Promised, func(e *history.Event) { e.Until = at(68.3) })),
		},
		{
			"ended by a leader within a promise of its node's alone (L8)", "I3", "from its node alone",
			all(weather, of(lifted2, history.Touched, func(e *history.Event) {
				if e.Sent == at(71.2) {
					e.Until = at(80.6)
				}
			})),
		},
		{
			"ended by a leader within a timeout of a touch that was handed over (L8)", "I1", "that it knew of, below",
			all(
				weather, drop(history.AppliedMove), unless(func(e history.Event) bool {
					return e.Kind == history.Resumed && e.ID == lifted2
				}),
				of(lifted2, history.Decided, func(e *history.Event) { e.Attachment, e.At = 5, at(76.9) }),
				of(lifted2, history.AppliedEnd, func(e *history.Event) {
					e.Attachment, e.Node, e.At = 5, 2, at(76.95)
				})),
		},
		{"released within a promise (L6)", "I3", "released it within its promise", add(elsewhere("k3", 65),
			history.Event{
				At: at(64.2), Kind: history.Promised, Who: "k3", ID: expires2, Attachment: 2, Local: true,
				Until: at(67.9),
			})},
		{"released long after an open (L6)", "I3", "released it within its promise", add(lastOpen(63.1)...)},

		// I4.
		{
			"a touch through an older attachment (L5)", "I4", "yet accepted a touch through an older one",
			all(weather, add(touch(expires2, 1, 63.2))),
		},
		{"a touch after the end", "I4", "had applied the session's end", all(weather, add(touch(expires2, 2, 68.3)))},
		{
			"a grant of an attachment that its node had not made", "I4", "was granted attachment 2",
			drop(history.LocalMoved),
		},
		{"a close through an older attachment (L5)", "I4", "no node had applied one", add(closing(expires2, 1, 63.2))},
		{
			"a close that ends another attachment", "I4", "ended the session with attachment 1",
			of(closed2, history.Closed, func(e *history.Event) { e.Attachment = 2 }),
		},
		{"a close that no client requested", "I4", "no client had requested that", unless(func(e history.Event) bool {
			return e.ID == closed2 && e.Kind == history.Closed
		})},
		{"notified of a move that was none", "I4", "notified of a move", drop(history.LocalMoved)},
		{
			"a touch with a local token of a session that was moved since (L5)", "I4",
			"yet took a touch with a local token", all(weather, add(touch(lifted2, 1, 76.3))),
		},
		{
			"a close with a local token of a session that was moved since (L5)", "I4",
			"a close with a local token ended",
			all(
				of(lifted2, history.AppliedEnd, func(e *history.Event) { e.Cause = session.CauseClosed }),
				add(closing(lifted2, 1, 80.6))),
		},
		{
			"a close with a local token that is not done", "I4", "no node had applied one",
			add(closing(lifted2, 1, 73.2)),
		},
		{"notified of a move with a local token before there was one", "I4", "notified of a move", add(
			history.Event{At: at(74), Kind: history.LearntMoved, Who: "k1", ID: lifted2, Attachment: 1, Local: true})},

		// E5, I5 and I7.
		{"notified of its end before it", "E5", "notified of an end", add(gone(expires2, 68.2))},
		{
			"notified of its end though it is global, and lives", "E5", "with a local token, of an end",
			add(gone(lifted2, 73)),
		},
		{
			"accepted by a later process of its node (L1)", "I5", "its local token was good later",
			all(weather, add(touch(left3, 1, 82.5))),
		},
		{"upgraded without a request (L7)", "I5", "no client had requested that", drop(history.UpgradeSent)},
		{
			"upgraded after the process of its node (L7)", "I5", "the first upgrade was sent when",
			add(history.Event{At: at(70.5), Kind: history.NodeStopped, Who: "n2"}),
		},
		{"upgraded after its end (L7)", "I5", "was brought back", all(
			of(closed2, history.Closed, func(e *history.Event) { e.ID = lifted2 }), of(closed2, history.LocalEnded,
				func(e *history.Event) { e.ID, e.At = lifted2, at(70.8) }))},
		{"upgraded twice (L7)", "I7", "twice, or not alike", add(history.Event{
			At: at(90), Kind: history.AppliedOpen, Who: "n1", Node: 2, ID: lifted2, Attachment: 9, Index: 40, Term: 2,
			Timeout: timeout,
		})},
		{
			"upgraded with another timeout (L7)", "I6", "changed its owner or its timeout",
			of(lifted2, history.AppliedOpen,
				func(e *history.Event) { e.Timeout = 5 * second }),
		},
		{"an id opened by two processes", "I7", "by two processes", add(opens(83, "n3", left3))},
		{"an id that the log had", "I7", "the log had its id", add(opens(60, "n1", id))},
		{"an id of another node", "I7", "opened locally by node 1", add(opens(90, "n1", lifted2+7))},
		{"an id below an earlier one of the node", "I7", "the same or a higher id", add(opens(90, "n2", expires2-1))},

		// L1.
		{"a lapse while faults concern other nodes alone", "L1", "lost its promise", all(fault("kill n1", "n1", 62, 66),
			drop(history.Silent), lapse(65),
			unless(func(e history.Event) bool { return e.ID == expires2 && e.Kind == history.Resumed }))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { mustFind(t, tt.plant(goodLocal()), tt.invariant, tt.words) })
	}
}

// TestUpgradedIDsAreNotOutOfOrder shows that an id may be claimed early and become global late.
func TestUpgradedIDsAreNotOutOfOrder(t *testing.T) {
	h := sorted(append(goodLocal(), history.Event{
		At: at(65), Kind: history.AppliedOpen, Who: "n1", Node: 2, ID: lifted2 + 1<<20, Attachment: 4, Index: 20,
		Term: 2, Timeout: timeout,
	}))
	if r := Check(h, bounds()); slices.ContainsFunc(r.Violations, func(v Violation) bool {
		return v.Invariant == "I7"
	}) {
		t.Errorf("got %v", r.Violations)
	}
}

// lastOpen is an open of a client that was answered at a moment, and then gave up a local session within a promise that
// is of 64.2 s.
func lastOpen(answered float64) []history.Event {
	return []history.Event{
		elsewhere("k3", 65),
		{At: at(answered), Kind: history.Refused, Op: history.Open, Who: "k3", Sent: at(62)},
		{At: at(64.2), Kind: history.Promised, Who: "k3", ID: expires2, Attachment: 2, Local: true, Until: at(67.9)},
	}
}
