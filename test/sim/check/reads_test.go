package check

import (
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// The shown sessions, as they are after entries 5, 6 and 8.
func opened() session.Session {
	return session.Session{ID: id, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 1}
}

func moved() session.Session {
	return session.Session{ID: id, Spec: session.Spec{Timeout: timeout}, Owner: 2, Attachment: 2}
}

// says returns an answer to a read of id, which was sent 10 ms before, with the node's state.
func says(who string, seconds float64, state session.NodeState, seen uint64,
	sessions ...session.Session,
) history.Event {
	return history.Event{
		At: at(seconds), Kind: history.Shown, Who: who, Node: state.Node, ID: id, Sent: at(seconds - 0.01),
		State: state,
		Read:  &history.Read{Allows: true, Seen: seen, Sessions: sessions},
	}
}

func is(node session.Node, mode session.Mode, index uint64) session.NodeState {
	return session.NodeState{Node: node, Mode: mode, Index: index}
}

func with(e history.Event, f func(*history.Event)) history.Event {
	f(&e)
	return e
}

const (
	rw = session.ModeReadWrite
	ro = session.ModeReadOnly
)

// reading is a plant: n3, whose read_only is on, is cut off until 49 s, and read-only from 47 s on at the latest, with
// 6 applied entries. A session is connected to it.
func reading(h []history.Event) []history.Event {
	for i := range h {
		if h[i].Kind == history.NodeStarted && h[i].Who == "n3" {
			h[i].State.Mode = session.ModeReadOnly
		}
	}
	h = fault("isolate n3", "n3", 20, 49)(h)
	refused := is(3, ro, 6)
	return append(h,
		says("x", 31, is(1, rw, 5), 0, opened()),
		says("x", 40, is(3, rw, 6), 5, moved()),
		says("x", 47, is(3, ro, 6), 6, moved()),
		history.Event{
			At: at(47.2), Kind: history.Refused, Who: "x", Node: 3, Op: history.Open, Sent: at(47.1),
			State: refused, Unknown: true,
		},
		says("x", 47.3, is(3, ro, 6), 6, moved()),
		history.Event{
			At: at(48), Kind: history.Refused, Who: "y", Node: 3, Op: history.Show, Sent: at(47.9),
			State: refused, Lagging: true,
		},
		history.Event{At: at(47), Kind: history.OnlyReads, Who: "c4", ID: 3 << 56, Attachment: 4},
		history.Event{
			At: at(90), Kind: history.Alive, Who: "c4", ID: 3 << 56, Attachment: 4, Until: at(91),
			Text: "connected",
		},
		with(says("x", 95, is(2, rw, 10), 6), func(e *history.Event) {
			e.Certificate = &session.Certificate{Term: 2, LastTouchAge: 4250 * time.Millisecond}
		}),
		page(says("x", 96, is(2, rw, 10), 10, session.Session{
			ID: 3 << 56, Spec: session.Spec{Timeout: timeout},
			Owner: 3, Attachment: 4,
		})),
	)
}

func page(e history.Event) history.Event {
	e.ID, e.Read.Page = 0, true
	return e
}

func TestGoodReadsHoldAndAreChecked(t *testing.T) {
	r := Check(sorted(reading(good())), bounds())
	for _, v := range r.Violations {
		t.Error(v)
	}
	for _, name := range []string{
		"N1", "N1 again", "N1 calm", "N2", "N3", "N4", "N4 elsewhere", "N4 lagging", "N5",
		"R4", "reads served",
	} {
		if r.Checked[name] == 0 {
			t.Errorf("%s was not put to the test", name)
		}
	}
}

// TestLegalReadsHold plants answers that only look wrong.
func TestLegalReadsHold(t *testing.T) {
	write := history.Event{
		At: at(47.2), Kind: history.Resumed, Who: "c9", Node: 3, ID: id2, Attachment: 3,
		Sent: at(46.5),
	}
	first := with(write, func(e *history.Event) {
		e.Kind, e.Sent, e.At, e.State = history.Closed, at(45.9), at(47.28), is(3, ro, 6)
	})
	for name, p := range map[string]plant{
		"an entry that no client has seen is not shown yet": add(says("z", 34.005, is(1, rw, 5), 0, opened())),
		"it is shown already":                               add(says("z", 34.005, is(1, rw, 6), 0, moved())),
		"a read-only node knows nothing of what came later": add(says("z", 48, is(3, ro, 4), 0)),
		"it shows what has ended since":                     add(says("z", 48, is(3, ro, 6), 0, moved())),
		"a close that was in flight when it became so":      add(first),
		"a process that starts in between": add(
			history.Event{At: at(47.1), Kind: history.NodeStarted, Who: "n2", Node: 2},
		),
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range Check(sorted(p(reading(good()))), bounds()).Violations {
				if v.Invariant[0] == 'N' || v.Invariant[0] == 'R' {
					t.Error(v)
				}
			}
		})
	}
}

// TestModesAreFound plants modes that nodes must not have.
func TestModesAreFound(t *testing.T) {
	findReads(t, []wrong{
		{"read-only, and its setting is off", "N1", "its setting is off", add(says("z", 48, is(2, ro, 6), 0, moved()))},
		{"read-only in a calm cluster", "N1", "in a calm cluster", add(says("z", 80, is(3, ro, 10), 0))},
		{
			"read-only soon after its start", "N1", "after its start",
			add(history.Event{
				At: 42 * second, Kind: history.NodeStarted, Who: "n3", Node: 3, State: session.NodeState{Mode: ro},
			}),
		},
		{
			"read-only soon after a good round", "N1", "had learnt of a good round",
			add(says("z", 43.05, is(3, rw, 7), 0)),
		},
	})
}

// TestWritesOfReadOnlyNodesAreFound plants writes that a read-only node takes.
func TestWritesOfReadOnlyNodesAreFound(t *testing.T) {
	write := history.Event{
		At: at(47.2), Kind: history.Opened, Who: "c9", Node: 3, ID: id2, Attachment: 3,
		Sent: at(47.1),
	}
	findReads(t, []wrong{
		{"an open", "N2", "took a write", add(write)},
		{"a resume", "N2", "took a write", add(with(write, func(e *history.Event) { e.Kind = history.Resumed }))},
		{"a close", "N2", "took a write", add(with(write, func(e *history.Event) { e.Kind = history.Closed }))},
		{"an open whose answer says so", "N2", "took a write", all(
			unless(func(e history.Event) bool { return e.State.Mode == ro && e.At > at(47) }),
			add(with(write, func(e *history.Event) { e.State = is(3, ro, 6) })))},
	})
}

// TestOldStateIsFound plants answers that are older than what the client has seen, or that were never true.
func TestOldStateIsFound(t *testing.T) {
	findReads(t, []wrong{
		{
			"an index below what the client has seen", "N4", "older than index 6",
			add(says("x", 48.5, is(3, ro, 5), 6, opened())),
		},
		{
			"an index below what the client had received, which has forgotten it", "N4", "has forgotten",
			add(says("x", 48.5, is(3, ro, 6), 5, moved())),
		},
		{
			"a state below what the client has seen", "N4", "true only before index 6",
			add(says("z", 48, is(3, ro, 6), 6, opened())),
		},
		{
			"an index from before the read", "N4", "not yet true at the index",
			add(says("z", 48, is(3, ro, 5), 0, moved())),
		},
		{
			"an index from before the read, of a list", "N4", "not yet true at the index",
			add(page(says("z", 48, is(3, ro, 5), 0, moved()))),
		},
		{"what never was so", "N3", "never true", add(says("z", 48, is(3, ro, 6), 0, with2(moved(), 3)))},
		{
			"a certificate of no session", "N3", "never true",
			add(with(says("z", 80, is(2, rw, 10), 0), func(e *history.Event) {
				e.Certificate = &session.Certificate{Term: 1}
			})),
		},
		{
			"a session that no client opened", "N3", "was never opened",
			add(page(says("z", 48, is(3, ro, 6), 0, moved(), session.Session{ID: id + 7}))),
		},
		{"a read-only answer to who does not allow it", "R4", "older than index 9", add(
			with(says("z", 48, is(3, ro, 6), 0, moved()), func(e *history.Event) { e.Read.Allows = false }))},
		{
			"a read-only answer long after the last fault", "liveness", "a node is read-only",
			add(says("z", 80, is(3, ro, 10), 0)),
		},
		{"connected read-only for good", "N5", "is connected read-only", change(history.Alive, "c4",
			func(e *history.Event) { e.Text = "connected read-only" })},
	})
}

// with2 returns s with another owner.
func with2(s session.Session, owner session.Node) session.Session {
	s.Owner = owner
	return s
}

// TestReadsOfLeadersAreLinearizable plants answers that leave out what was acknowledged before the request.
func TestReadsOfLeadersAreLinearizable(t *testing.T) {
	findReads(t, []wrong{
		{
			"an index below an open that was answered", "R4", "older than index 5",
			add(says("z", 30.05, is(1, rw, 4), 0)),
		},
		{
			"an index below a move that was answered", "R4", "older than index 6",
			add(says("z", 34.05, is(1, rw, 5), 0, opened())),
		},
		{"an index below what any client has received", "R4", "older than index 10", add(says("z", 97, is(1, rw, 9), 0))},
		{
			"not the session, whose open was answered", "R4", "acknowledged before",
			add(says("z", 30.05, is(1, rw, 5), 0)),
		},
		{
			"the session as it was before a move that was answered", "R4", "acknowledged before",
			add(says("z", 34.05, is(1, rw, 6), 0, opened())),
		},
		{"a session whose end was reported", "R4", "acknowledged before", add(says("z", 42, is(1, rw, 7), 0, moved()))},
		{"a list without a session", "R4", "acknowledged before", add(page(says("z", 34.05, is(1, rw, 6), 0)))},
		{
			"a list with one that has ended", "R4", "acknowledged before",
			add(page(says("z", 42, is(1, rw, 7), 0, moved()))),
		},
		{"by a node that knows no leader", "R4", "acknowledged before", add(
			with(says("z", 34.05, is(1, session.ModeNoLeader, 6), 0, opened()), func(e *history.Event) {
				e.Read.Allows = false
			}))},
	})
}

func findReads(t *testing.T, tests []wrong) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { mustFind(t, tt.plant(reading(good())), tt.invariant, tt.words) })
	}
}
