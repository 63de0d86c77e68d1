package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

const (
	id      = session.ID(0x0100000000010000)
	id2     = session.ID(0x0100000000020000)
	timeout = 4 * time.Second
	second  = time.Second
	minute  = time.Minute
)

func bounds() Bounds {
	return Bounds{
		ExpiryInterval: 250 * time.Millisecond, Commit: time.Second, Calm: 50 * time.Millisecond,
		Recovery: 10 * time.Second,
		Interval: 500 * time.Millisecond, Quorum: 2, Serve: 15 * time.Second, ReadOnlyAfter: 5500 * time.Millisecond,
		Keeps: true, Probe: time.Second,
	}
}

// at returns a moment of the run.
func at(seconds float64) time.Duration {
	return time.Duration(seconds * float64(second)).Round(time.Millisecond)
}

// plant changes a history.
type plant func([]history.Event) []history.Event

// good is a correct run. A session lives on n1, another process takes it over at n2, and it falls silent and expires.
// Another session is closed.
func good() []history.Event {
	h := []history.Event{
		{At: second, Kind: history.NodeStarted, Who: "n1", Node: 1},
		{At: second, Kind: history.NodeStarted, Who: "n2", Node: 2},
		{At: second, Kind: history.NodeStarted, Who: "n3", Node: 3},
		{At: 20 * second, Kind: history.AppliedTerm, Who: "n1", Index: 4, Term: 2},
		{
			At: 30 * second, Kind: history.AppliedOpen, Who: "n1", Node: 1, ID: id, Attachment: 1, Instance: 11,
			Index: 5,
			Term:  2, Timeout: timeout,
		},
		{
			At: 30 * second, Kind: history.AppliedOpen, Who: "n2", Node: 1, ID: id, Attachment: 1, Instance: 11,
			Index: 5,
			Term:  2, Timeout: timeout,
		},
		{At: 30 * second, Kind: history.Digest, Who: "n1", Index: 5, Text: "aa"},
		{At: 30 * second, Kind: history.Digest, Who: "n2", Index: 5, Text: "aa"},
		{At: at(30.01), Kind: history.Opened, Who: "c1", ID: id, Attachment: 1, Sent: at(29.99), Until: 33 * second},
		{
			At: at(32.002), Kind: history.Touched, Who: "c1", Node: 1, ID: id, Attachment: 1, Sent: 32 * second,
			Until: 35 * second,
		},
		{
			At: 34 * second, Kind: history.AppliedMove, Who: "n1", Node: 2, ID: id, Attachment: 2, Instance: 12,
			Index: 6,
			Term:  2, Timeout: timeout,
		},
		{
			At: at(34.002), Kind: history.AppliedMove, Who: "n2", Node: 2, ID: id, Attachment: 2, Instance: 12,
			Index: 6,
			Term:  2, Timeout: timeout,
		},
		{At: at(34.01), Kind: history.TookOver, Who: "c2", ID: id, Instance: 12, Sent: at(33.99)},
		{
			At: at(34.01), Kind: history.Resumed, Who: "c2", Node: 2, ID: id, Attachment: 2, Sent: at(33.99),
			Until: 37 * second,
		},
		{At: at(34.01), Kind: history.LearntMoved, Who: "c1", ID: id, Attachment: 1},
		{
			At: at(36.002), Kind: history.Touched, Who: "c2", Node: 2, ID: id, Attachment: 2, Sent: 36 * second,
			Until: 39 * second,
		},
		{At: at(36.01), Kind: history.Silent, Who: "c2", ID: id, Attachment: 2},
		{At: at(36.01), Kind: history.Silent, Who: "c1", ID: id, Attachment: 1},
		{At: 39 * second, Kind: history.ContextEnded, Who: "c2", ID: id},
		decided(40.252),
		ended(at(40.26), "n1"),
		ended(at(40.27), "n2"),
		{
			At: 41 * second, Kind: history.LearntGone, Who: "c2", ID: id, Attachment: 2,
			Certificate: &session.Certificate{Cause: session.CauseExpired},
		},
		{
			At: 44 * second, Kind: history.AppliedOpen, Who: "n1", Node: 1, ID: id2, Attachment: 3, Index: 8, Term: 2,
			Timeout: timeout,
		},
		{At: at(44.01), Kind: history.Opened, Who: "c3", ID: id2, Attachment: 3, Sent: at(43.99), Until: 47 * second},
		{
			At: 46 * second, Kind: history.AppliedEnd, Who: "n1", Node: 1, ID: id2, Attachment: 3, Index: 9, Term: 2,
			Timeout: timeout,
			Cause:   session.CauseClosed,
		},
		{At: at(46.01), Kind: history.Closed, Who: "c3", Node: 1, ID: id2, Attachment: 3, Sent: at(45.99)},
		{At: 50 * second, Kind: history.Healed},
		{At: 50 * second, Kind: history.Wants, Who: "c4"},
		{
			At: 55 * second, Kind: history.AppliedOpen, Who: "n1", Node: 3, ID: 3 << 56, Attachment: 4, Index: 10,
			Term:    2,
			Timeout: timeout,
		},
		{
			At: 55 * second, Kind: history.Opened, Who: "c4", ID: 3 << 56, Attachment: 4, Sent: 54 * second,
			Until: 58 * second,
		},
		{At: 2 * minute, Kind: history.Finished},
	}
	h = append(h, beat("n1", 2, 40.25, 1, 2, 3)...)
	return sorted(append(h, beats("n1", 2, 20, 120, 1, 2, 3)...))
}

func decided(seconds float64) history.Event {
	return history.Event{At: at(seconds), Kind: history.Decided, Who: "n1", ID: id, Attachment: 2, Term: 2}
}

func ended(at time.Duration, who string) history.Event {
	return history.Event{
		At: at, Kind: history.AppliedEnd, Who: who, Node: 2, ID: id, Attachment: 2, Index: 7, Term: 2, Timeout: timeout,
		Cause:       session.CauseExpired,
		Certificate: &session.Certificate{Term: 2, LastTouchAge: 4250 * time.Millisecond},
	}
}

// beats are the answers to a leader when all nodes answer a heartbeat every half second.
func beats(leader string, term uint64, from, till float64, nodes ...session.Node) []history.Event {
	var h []history.Event
	for sent := from; sent < till; sent += 0.5 {
		h = append(h, beat(leader, term, sent, nodes...)...)
	}
	return h
}

func beat(leader string, term uint64, sent float64, nodes ...session.Node) []history.Event {
	var h []history.Event
	for _, n := range nodes {
		h = append(
			h, history.Event{
				At: at(sent + 0.002), Kind: history.AnswerReceived, Who: leader, Node: n, Term: term,
				Sent: at(sent),
			},
		)
	}
	return h
}

func sorted(h []history.Event) []history.Event {
	slices.SortStableFunc(h, func(a, b history.Event) int { return int(a.At - b.At) })
	return h
}

// add plants further events.
func add(more ...history.Event) plant {
	return func(h []history.Event) []history.Event { return append(h, more...) }
}

// change plants f into the events of a kind; who is the client or node concerned, empty for all.
func change(k history.Kind, who string, f func(*history.Event)) plant {
	return func(h []history.Event) []history.Event {
		for i := range h {
			if h[i].Kind == k && h[i].ID != id2 && (who == "" || h[i].Who == who) {
				f(&h[i])
			}
		}
		return h
	}
}

func drop(k history.Kind) plant {
	return unless(func(e history.Event) bool { return e.Kind == k })
}

// of plants f into the events of a kind that concern one session.
func of(id session.ID, k history.Kind, f func(*history.Event)) plant {
	return func(h []history.Event) []history.Event {
		for i := range h {
			if h[i].ID == id && h[i].Kind == k {
				f(&h[i])
			}
		}
		return h
	}
}

func unless(f func(history.Event) bool) plant {
	return func(h []history.Event) []history.Event { return slices.DeleteFunc(h, f) }
}

// later makes room in the log for an entry with an index.
func later(index uint64) plant {
	return func(h []history.Event) []history.Event {
		for i := range h {
			if h[i].Index >= index {
				h[i].Index++
			}
		}
		return h
	}
}

// other makes a node apply an entry with index 7 about a session of its own.
func other(who string, seconds float64) history.Event {
	return history.Event{
		At: at(seconds), Kind: history.AppliedOpen, Who: who, Node: 2, ID: 2 << 56, Attachment: 77, Index: 7, Term: 2,
		Timeout: timeout,
	}
}

// unheard drops the answers of nodes to heartbeats that the leader sent them between two moments.
func unheard(from, till float64, nodes ...session.Node) plant {
	return unless(func(e history.Event) bool {
		return e.Kind == history.AnswerReceived && e.Sent >= at(from) && e.Sent < at(till) && slices.Contains(nodes, e.Node)
	})
}

// slowed delays the answers of nodes to heartbeats that were sent between two moments by some seconds.
func slowed(from, till, by float64, nodes ...session.Node) plant {
	return change(history.AnswerReceived, "", func(e *history.Event) {
		if e.Sent >= at(from) && e.Sent < at(till) && slices.Contains(nodes, e.Node) {
			e.At += at(by)
		}
	})
}

// expires makes the leader decide at a moment. The end is applied right after.
func expires(seconds float64) plant {
	return all(
		change(history.Decided, "", func(e *history.Event) { e.At = at(seconds) }),
		change(history.AppliedEnd, "", func(e *history.Event) { e.At = at(seconds + 0.01) }),
		change(history.LearntGone, "", func(e *history.Event) { e.At = at(seconds + 0.1) }),
		change(history.ContextEnded, "", func(e *history.Event) { e.At = at(38.9) }),
		change(history.Touched, "c2", func(e *history.Event) { e.Until = 0 }),
	)
}

// storm is a fault that concerns all hosts.
func storm(from, till float64) plant { return fault("storm", "", from, till) }

func fault(what, who string, from, till float64) plant {
	return add(
		history.Event{At: at(from), Kind: history.FaultBegan, Who: who, Text: what},
		history.Event{At: at(till), Kind: history.FaultEnded, Who: who, Text: what},
	)
}

func all(plants ...plant) plant {
	return func(h []history.Event) []history.Event {
		for _, p := range plants {
			h = p(h)
		}
		return h
	}
}

func TestGoodHistoryHoldsAndIsChecked(t *testing.T) {
	r := Check(good(), bounds())
	for _, v := range r.Violations {
		t.Error(v)
	}
	for _, name := range []string{
		"I1", "I1 certificate", "I1 term", "I1 process", "I1 move", "I1 touch", "I1 word", "I2", "I2 silent",
		"I2 commit", "I3", "E3", "I4", "M1", "M3", "T2",
		"closes", "E5", "I5", "I6", "I6 changes", "I7", "I7 order", "context", "reported moved", "linear", "liveness",
	} {
		if r.Checked[name] == 0 {
			t.Errorf("%s was not put to the test", name)
		}
	}
}

// TestLegalHistoryHolds shows that allowed behaviour is no violation, and that special cases are counted.
func TestLegalHistoryHolds(t *testing.T) {
	tests := []struct {
		name, counts string
		plant        plant
	}{
		{"a client that closes needs no promise", "served", add(
			history.Event{At: 90 * second, Kind: history.CloseSent, Who: "c3", ID: id + 1, Attachment: 9},
			history.Event{At: 90 * second, Kind: history.Alive, Who: "c3", ID: id + 1, Attachment: 9},
			history.Event{At: 90 * second, Kind: history.Alive, Who: "c3", ID: id +
				2, Attachment: 8, Until: 91 * second},
		)},
		{"a lost owner's session, a full timeout after its last answer", "I2 owner lost", all(
			fault("isolate n2", "n2", 36.6, 49), unheard(36.6, 49, 2), expires(41.252))},
		{"time without a quorum is added", "I8", all(storm(36.6, 39), unheard(36.6, 39, 2, 3), expires(41.752))},
		{"the owner's answer with a touch comes at the moment of the decision, and after it", "I1 word", all(
			storm(37, 49), expires(40.3), add(
				history.Event{
					At: at(40.256), Kind: history.Touched, Who: "c2", Node: 2, ID: id, Attachment: 2,
					Sent: at(40.254),
				},
				history.Event{At: at(40.3), Kind: history.AnswerReceived, Who: "n1", Node: 2, Term: 2, Sent: at(40.3)},
			))},
		{"a slow round is waited for", "I2 silent", all(storm(37, 49), slowed(37, 49, 0.2, 2, 3), expires(41.4))},
		{"the clock of another tracker runs from its start", "I8", all(
			storm(31, 49), unheard(31, 38.9, 2, 3),
			add(history.Event{At: at(38.4), Kind: history.Leads, Who: "n1", Term: 2}), expires(42.65))},
		{"an owner that learns from a snapshot that it is one holds the session for a timeout", "I2 silent", all(
			storm(37, 49), later(7), unless(func(e history.Event) bool {
				return e.Kind == history.AppliedMove && e.Who == "n2" && e.ID == id
			}), add(other("n1", 37.9), other("n2", 38)), expires(42.252))},
		{"an owner that was restarted holds its sessions for a timeout", "I2 owner restarted", all(
			fault("kill n2", "n2", 37, 38), unheard(37, 38, 2), restarted("n2", 2, 38), expires(42.252))},
		{"a leader that stalls and begins another tracker gives a full timeout", "I2 fail-over", all(
			storm(37, 49), add(history.Event{At: 38 * second, Kind: history.Leads, Who: "n1", Term: 2}),
			expires(42.252))},
		{"an owner whose connections were reset was lost for a moment", "I2 owner lost", all(
			storm(37, 49), add(history.Event{At: 38 * second, Kind: history.Reset, Who: "n2", Text: "n1"}),
			expires(42.252))},
		{"a new leader gives a full timeout", "I2 fail-over", all(failOver, expires(42.252))},
		{"a restarted node that has not come as far again takes a touch", "T2", all(storm(33, 49), add(
			history.Event{At: 35 * second, Kind: history.NodeStarted, Who: "n1", Node: 1},
			history.Event{
				At: at(36.002), Kind: history.Touched, Who: "c1", Node: 1, ID: id, Attachment: 1,
				Sent: 36 * second,
			},
		))},
		{
			"a library closes through the attachment that it resumed meanwhile", "closes",
			func(h []history.Event) []history.Event {
				for i := range h {
					if h[i].Kind == history.Closed {
						h[i].Node, h[i].Attachment = 0, 1
					}
				}
				return h
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := sorted(tt.plant(good()))
			r := Check(h, bounds())
			for _, v := range r.Violations {
				t.Errorf("%s in:\n%s", v, history.Story(h, id, r.Marks(id)...))
			}
			if r.Checked[tt.counts] == 0 {
				t.Errorf("%s was not put to the test: %v", tt.counts, r.Checked)
			}
		})
	}
}

func restarted(who string, node session.Node, seconds float64) plant {
	return add(history.Event{At: at(seconds), Kind: history.NodeStarted, Who: who, Node: node})
}

// failOver kills the leader n1. n3 leads from 38 s on, and makes the decision about the session.
func failOver(h []history.Event) []history.Event {
	h = fault("kill n1", "n1", 37, 110)(h)
	h = unheard(37, 120, 1, 2, 3)(h)
	h = append(h, history.Event{At: at(37.99), Kind: history.AppliedTerm, Who: "n3", Index: 7, Term: 3})
	h = append(h, beats("n3", 3, 38, 120, 2, 3)...)
	for i := range h {
		switch {
		case h[i].Kind == history.Decided:
			h[i].Term, h[i].Who = 3, "n3"
		case h[i].Kind == history.AppliedEnd && h[i].ID == id:
			h[i].Term, h[i].Certificate = 3, &session.Certificate{Term: 3, LastTouchAge: -time.Millisecond}
		}
	}
	return h
}

// TestFaultsExcuse shows what a fault excuses, and what it does not, when the leaders' rounds are unknown.
func TestFaultsExcuse(t *testing.T) {
	tests := []struct {
		name string
		end  float64
		want []string
	}{
		{"late under a fault", 50, nil},
		{"late long after the last fault", 70, []string{"I2"}},
		{"within a timeout of a touch that the owner could not report", 39.5, nil},
		{"within a promise", 38.9, []string{"I3", "I3"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := all(drop(history.LearntGone), drop(history.Decided), drop(history.AnswerReceived), storm(35, 50),
				change(history.AppliedEnd, "", func(e *history.Event) { e.At = at(tt.end) }))(good())
			var got []string
			for _, v := range Check(sorted(h), bounds()).Violations {
				got = append(got, v.Invariant)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// mustFind checks a planted history. It wants a violation of an invariant with the given text.
func mustFind(t *testing.T, h []history.Event, invariant, words string) {
	t.Helper()
	h = sorted(h)
	r := Check(h, bounds())
	if !slices.ContainsFunc(r.Violations, func(v Violation) bool {
		return v.Invariant == invariant && strings.Contains(v.Text, words)
	}) {
		t.Errorf("got %v, want a violation of %s that says %q in:\n%s", r.Violations, invariant, words,
			history.Story(h, id, r.Marks(id)...))
	}
}
