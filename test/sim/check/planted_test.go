package check

import (
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// wrong is a planted error, the invariant that it violates, and words in the violation's text.
type wrong struct {
	name, invariant, words string
	plant                  plant
}

func findAll(t *testing.T, tests []wrong) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { mustFind(t, tt.plant(good()), tt.invariant, tt.words) })
	}
}

// TestEarlyIsFound plants expiries that come too early, in a storm, so that only the leader's evidence counts.
func TestEarlyIsFound(t *testing.T) {
	word := "counted to the owner's last word"
	findAll(t, []wrong{
		{"in a calm cluster, without a word of the leader's", "I1", "after an accepted touch", all(
			drop(history.Decided), drop(history.AnswerReceived), change(history.AppliedEnd, "n1", func(e *history.Event) {
				e.At = at(39.5)
			}))},
		{"a certificate of a touch within the timeout", "I1", "its certificate says", change(history.AppliedEnd, "n1",
			func(e *history.Event) {
				e.Certificate.LastTouchAge = 3999 * time.Millisecond
			})},
		{
			"within a timeout of a touch that the leader received", "I1", "that it knew of, below",
			all(storm(30, 49), expires(39.9)),
		},
		{"within a timeout of the term's begin (E1)", "I1", "its term began", all(
			storm(30, 49), change(history.AppliedTerm, "", func(e *history.Event) { e.At = at(36.4) }),
			unheard(0, 36.5, 1, 2, 3))},
		{
			"within a timeout of the start of the owner's process (E1)", "I1", "the start of the owner's process",
			all(storm(30, 49), restarted("n2", 2, 37)),
		},
		{"within a timeout of its move (S2)", "I1", "the entry that made the attachment", all(
			storm(30, 49), change(history.AppliedMove, "", func(e *history.Event) { e.At = at(36.5) }))},
		{"of a lost owner, within a timeout of its last word (E1)", "I1", word, all(storm(30, 49), unheard(37, 49, 2))},
		{"without its owner's word (E2)", "I1", word, all(storm(30, 49), unheard(39.6, 40.6, 2), expires(40.052))},
		{"when its owner's last word came with the touch", "I1", word, all(
			storm(30, 49), change(history.Touched, "c2", func(e *history.Event) {
				e.Sent, e.At = at(37.998), 38*second
			}),
			unheard(38.1, 49, 2), expires(41.999))},
		{"without its owner's word before the moment of the decision (E2)", "I1", word, all(
			storm(30, 49), unheard(39.6, 40.29, 2), expires(40.3), add(
				history.Event{
					At: at(40.256), Kind: history.Touched, Who: "c2", Node: 2, ID: id, Attachment: 2,
					Sent: at(40.254),
				},
				history.Event{At: at(40.3), Kind: history.AnswerReceived, Who: "n1", Node: 2, Term: 2, Sent: at(40.3)},
			))},
		{"by a decision about a former attachment (E3)", "I1", "without a decision about it", change(history.Decided,
			"", func(e *history.Event) {
				e.Attachment = 1
			})},
		{
			"by an entry of a later term than decided (E3)", "E3", "ended by an entry of term 3",
			change(history.AppliedEnd, "", func(e *history.Event) { e.Term = 3 }),
		},
		{"by time without a quorum", "I8", "without a good round", all(storm(36.6, 39), unheard(36.6, 39, 2, 3))},
		{"by time without a quorum in a new term", "I8", "its term began", all(failOver, unheard(39, 41, 2),
			expires(42.3))},
	})
}

// another is the life of a session that the leader finds expired 0.1 s before the first one, and ends at an index.
func another(index uint64) plant {
	const other, ms = id + 3, time.Millisecond
	return add(
		history.Event{
			At: 36 * second, Kind: history.AppliedOpen, Who: "n1", Node: 2, ID: other, Attachment: 9, Index: 6, Term: 2,
			Timeout: timeout,
		},
		history.Event{At: at(40.152), Kind: history.Decided, Who: "n1", ID: other, Attachment: 9, Term: 2},
		history.Event{
			At: at(40.261), Kind: history.AppliedEnd, Who: "n1", Node: 2, ID: other, Attachment: 9, Index: index, Term: 2,
			Timeout: timeout, Cause: session.CauseExpired,
			Certificate: &session.Certificate{Term: 2, LastTouchAge: 4150 * ms},
		},
	)
}

// TestExpiriesThatPassEachOtherAreFound plants a batch that reaches the log before an earlier one (E3 ordered closes).
// In one entry, and in the order of the decisions, the same ends are counted and found right.
func TestExpiriesThatPassEachOtherAreFound(t *testing.T) {
	words := "ended by entry 7, before entry 8"
	mustFind(t, another(8)(good()), "E3", words)
	for _, index := range []uint64{6, 7} {
		r := Check(sorted(another(index)(good())), bounds())
		if r.Checked["E3 sequence"] != 1 {
			t.Errorf("%d sequences checked, want 1", r.Checked["E3 sequence"])
		}
		for _, v := range r.Violations {
			if v.Invariant == "E3" {
				t.Error(v)
			}
		}
	}
}

// TestLateIsFound plants expiries that come too late.
func TestLateIsFound(t *testing.T) {
	findAll(t, []wrong{
		{"a twentieth of a second late in a calm cluster", "I2", "it should have expired by", expires(40.34)},
		{"never", "I2", "never did", all(drop(history.AppliedEnd), drop(history.LearntGone))},
		{"while a fault concerns others", "I2", "silent since", all(storm(37, 49), expires(42))},
		{"though rounds took long, but not so long", "I2", "silent since", all(storm(37, 49), slowed(37, 49, 0.2, 2, 3),
			expires(41.6))},
		{"after a fail-over", "I2", "fail-over since", all(failOver, expires(43.4))},
		{"after a fail-over, because the commit took long", "I2", "term 3 began", all(failOver, expires(42.252),
			change(history.AppliedEnd, "", func(e *history.Event) { e.At = at(44.1) }), drop(history.LearntGone))},
		{"of a lost owner", "I2", "owner lost since", all(fault("isolate n2", "n2", 36.6, 49), unheard(36.6, 49, 2),
			expires(42.5))},
		{"of a restarted owner", "I2", "owner restarted since", all(
			fault("kill n2", "n2", 37, 38), unheard(37, 38, 2), restarted("n2", 2, 38), expires(43.5))},
		{"because the commit took long", "I2", "its end was applied only now", all(fault("isolate n3", "n3", 37, 49),
			change(history.AppliedEnd, "", func(e *history.Event) { e.At = at(41.3) }), drop(history.LearntGone))},
		{
			"a client that wants to be served is not", "liveness", "was not within",
			add(history.Event{At: 51 * second, Kind: history.Wants, Who: "c5"}),
		},
		{"a client that wants to be served is, too late", "liveness", "was not within", change(history.Opened, "c4",
			func(e *history.Event) { e.At = 66 * second })},
		{"alive without a promise long after the heal", "liveness", "is promised nothing", add(
			history.Event{At: 90 * second, Kind: history.Alive, Who: "c3", ID: id + 1, Attachment: 9})},
	})
}

// TestBrokenPromiseIsFound plants expiries within a promise, with each kind of answer that carries one.
func TestBrokenPromiseIsFound(t *testing.T) {
	longer := func(e *history.Event) { e.Until = at(40.261) }
	findAll(t, []wrong{
		{"of a touch", "I3", "before the end of a promise", change(history.Touched, "c2", longer)},
		{"of a touch, but for the rates of clocks", "I3 clocks", "after the end of a promise", change(history.Touched, "c2",
			func(e *history.Event) { e.Until = at(40.24) })},
		{"of a resume", "I3", "before the end of a promise", change(history.Resumed, "c2", longer)},
		{"of an open", "I3", "before the end of a promise", change(history.Opened, "c1", longer)},
		{"of the library", "I3", "before the end of a promise", add(
			history.Event{
				At: 37 * second, Kind: history.Promised, Who: "c2", ID: id, Attachment: 2,
				Until: at(40.261),
			})},
		{"a context that ends after the expiry", "I3", "its context", change(history.ContextEnded,
			"", func(e *history.Event) { e.At = at(40.261) })},
	})
}

// TestTwoOwnersAreFound plants requests that take effect through old attachments, and other breaches of I4.
func TestTwoOwnersAreFound(t *testing.T) {
	closed := func(f func(*history.Event)) plant {
		return func(h []history.Event) []history.Event {
			for i := range h {
				if h[i].Kind == history.Closed {
					f(&h[i])
				}
			}
			return h
		}
	}
	oldClose := history.Event{
		At: 36 * second, Kind: history.Closed, Who: "c1", ID: id, Attachment: 1,
		Sent: 35 * second,
	}
	old := history.Event{
		At: at(36.002), Kind: history.Touched, Who: "c1", Node: 1, ID: id, Attachment: 1,
		Sent: 36 * second,
	}
	further := old
	further.Sent, further.Until = 33*second, at(38.011)
	elsewhere := old
	elsewhere.Attachment, elsewhere.Node = 2, 3
	unknown := old
	unknown.Attachment = 7
	dead := old
	dead.Attachment, dead.Node, dead.Sent, dead.At = 2, 2, at(41), at(41.002)
	second2 := history.Event{
		At: at(35), Kind: history.Resumed, Who: "c9", Node: 2, ID: id, Attachment: 2,
		Sent: at(33.99),
	}
	ungranted := second2
	ungranted.Attachment = 6
	findAll(t, []wrong{
		{
			"a promise by a touch through the old attachment", "I4", "a touch through an older one took effect",
			add(further),
		},
		{"a touch accepted through the old attachment in a calm cluster", "I4", "a calm cluster accepted a touch", add(old)},
		{
			"a touch accepted by an owner that had applied the move (T2)", "I4", "yet accepted a touch through an older one",
			all(storm(20, 49), add(old)),
		},
		{
			"a touch accepted by a node that does not own it", "I4", "through attachment 2 of node 2",
			all(storm(20, 49), add(elsewhere)),
		},
		{"a touch accepted through an unknown attachment (M3)", "I4", "no node had applied (M3)", add(unknown)},
		{"a touch accepted by an owner that had applied the end (M4)", "I4", "had applied the session's end", add(dead)},
		{"a grant that no node had applied (M3)", "I4", "was granted attachment 6", add(ungranted)},
		{"one attachment for two", "I4", "was granted to c2 and to c9", add(second2)},
		{"a close through the old attachment", "I4", "yet a close through an older one was done", add(oldClose)},
		{"a close that is answered and not done", "I4", "no node had applied one", closed(func(e *history.Event) {
			e.At = at(45.999)
		})},
		{
			"a close that ends another attachment (M2)", "I4", "ended the session with attachment 3",
			closed(func(e *history.Event) { e.Attachment = 2 }),
		},
		{"a close that no client requested", "I4", "no client had requested that", drop(history.Closed)},
		{"the victim is never notified", "I4", "was never notified of 2", add(history.Event{
			At: 90 * second, Kind: history.Alive, Who: "c1", ID: id, Attachment: 1, Until: 91 * second,
		})},
		{
			"a delayed resume of a process that had given up by then (M1)", "I4", "process 12 took it over",
			change(history.TookOver, "", func(e *history.Event) {
				e.Sent, e.At = at(29.5), at(29.9)
			}),
		},
		{
			"a resume that no client sent takes it over (M1)", "I4", "process 12 took it over",
			drop(history.TookOver),
		},
		{"a resume of the process that lost it takes it back (M1)", "I4", "process 11 took it", add(history.Event{
			At: 35 * second, Kind: history.AppliedMove, Who: "n1", Node: 1, ID: id, Attachment: 3, Instance: 11,
			Index: 7, Term: 2, Timeout: timeout,
		})},
		{"notified of a move that was none", "I4", "notified of a move", drop(history.AppliedMove)},
		{"notified of the end before it", "E5", "notified of an end", change(history.LearntGone, "", func(e *history.Event) {
			e.At = 40 * second
		})},
		{"alive after its end", "E5", "holds it to be alive", add(history.Event{
			At: 90 * second, Kind: history.Alive, Who: "c2", ID: id, Attachment: 2, Until: 91 * second,
		})},
		{"two leaders of one term", "R3", "two leaders", add(beat("n3", 2, 60, 3)...)},
	})
}

// TestReplicasThatDifferAreFound plants differences between nodes, and changes made twice.
func TestReplicasThatDifferAreFound(t *testing.T) {
	findAll(t, []wrong{
		{
			"digests differ", "I6", "has digest",
			add(history.Event{At: 31 * second, Kind: history.Digest, Who: "n3", Index: 5, Text: "ab"}),
		},
		{"ended by two entries", "I5", "not alike", change(history.AppliedEnd, "n2", func(e *history.Event) {
			e.Index = 8
		})},
		{"ended with two certificates", "I5", "not alike", change(history.AppliedEnd, "n2", func(e *history.Event) {
			e.Certificate.Credited = second
		})},
		{"ended by two causes", "I5", "not alike", change(history.AppliedEnd, "n2", func(e *history.Event) {
			e.Cause = session.CauseClosed
		})},
		{"moved to two owners", "I6", "at index 6", change(history.AppliedMove, "n2", func(e *history.Event) {
			e.Node = 3
		})},
		{"moved on one node only", "I6", "changed nothing at index 6", add(
			history.Event{At: 35 * second, Kind: history.Digest, Who: "n3", Index: 6, Text: "bb"})},
		{"more done on one node", "I6", "at index 8", add(
			history.Event{
				At: 44 * second, Kind: history.AppliedOpen, Who: "n2", Node: 1, ID: id2, Attachment: 3,
				Index: 8, Term: 2, Timeout: timeout,
			},
			history.Event{
				At: 44 * second, Kind: history.AppliedMove, Who: "n2", Node: 2, ID: id2, Attachment: 5,
				Index: 8, Term: 2, Timeout: timeout,
			})},
		{"an attachment given twice", "I6", "given twice", add(
			history.Event{
				At: 50 * second, Kind: history.AppliedMove, Who: "n1", Node: 2, ID: id2, Attachment: 2,
				Index: 12, Term: 2,
			})},
		{"an id opened twice", "I7", "twice", add(
			history.Event{
				At: 60 * second, Kind: history.AppliedOpen, Who: "n1", Node: 1, ID: id, Attachment: 5,
				Index: 20, Term: 2, Timeout: timeout,
			})},
		{"an id below an earlier one of the node", "I7", "with the same or a higher id", add(
			history.Event{
				At: 60 * second, Kind: history.AppliedOpen, Who: "n1", Node: 1, ID: id - 1, Attachment: 5,
				Index: 20, Term: 2, Timeout: timeout,
			})},
		{"an id given to two clients", "I7", "given to", add(
			history.Event{
				At: at(30.02), Kind: history.Opened, Who: "c8", ID: id, Attachment: 1, Sent: at(29.99),
				Until: 33 * second,
			})},
	})
}

// TestAnswersWithoutOrderAreFound plants answers that no order of the operations explains.
func TestAnswersWithoutOrderAreFound(t *testing.T) {
	move := history.Event{
		At: 60 * second, Kind: history.AppliedMove, Who: "n1", Node: 2, ID: id, Attachment: 9,
		Index: 20, Term: 2, Timeout: timeout,
	}
	resumed := history.Event{
		At: at(60.01), Kind: history.Resumed, Who: "c7", Node: 2, ID: id, Attachment: 9,
		Sent: at(59.99), Until: 63 * second,
	}
	findAll(t, []wrong{
		{"resumed after its end", "linear", "no order", add(move, resumed)},
		{"notified of a move that no client made", "linear", "no order", add(history.Event{
			At: 37 * second, Kind: history.LearntMoved, Op: history.Touch, Who: "c2", ID: id, Attachment: 2,
			Sent: at(36.9),
		})},
		{"notified of another cause", "linear", "no order", change(history.LearntGone, "", func(e *history.Event) {
			e.Certificate.Cause = session.CauseClosed
		})},
		{
			"closed twice over", "linear", "no order",
			add(history.Event{
				At: 42 * second, Kind: history.Closed, Who: "c2", ID: id, Attachment: 2,
				Sent: 41 * second,
			}),
		},
		{"moved before it was requested", "linear", "took effect before it was requested", change(history.Resumed, "c2",
			func(e *history.Event) {
				e.Sent = at(34.001)
			})},
	})
}

// TestSearchIsShort has more orders than any search could try: as many moves and answers as clients that fight over a
// session for minutes cause, all requested at one moment. The only possible order is plain all the same.
func TestSearchIsShort(t *testing.T) {
	h := []history.Event{
		{At: second, Kind: history.AppliedOpen, Who: "n1", ID: id, Attachment: 1, Index: 1, Term: 1, Timeout: timeout},
	}
	for i := range 200 {
		n, at := uint64(i), minute+time.Duration(i)*time.Millisecond
		h = append(h,
			history.Event{At: at, Kind: history.AppliedMove, Who: "n1", ID: id, Attachment: 2 + n, Index: 2 +
				n, Term: 1},
			history.Event{At: at, Kind: history.LearntMoved, Who: "c1", ID: id, Attachment: n, Sent: 2 * second})
	}
	for _, v := range Check(sorted(h), bounds()).Violations {
		if v.Invariant == "linear" {
			t.Errorf("found %v in what can be", v)
		}
	}
	mustFind(t, append(h, history.Event{At: 2 * minute, Kind: history.LearntGone, Who: "c1", ID: id, Attachment: 201}),
		"linear", "no order")
}
