package check

import (
	"testing"
	"time"

	"holdfast/test/sim/history"
)

// A cluster is calm when no fault has been at work for a while, and the cluster has run for that long.
func TestCalmWeather(t *testing.T) {
	w := weather{calmAfter: 10 * second}
	w.beginFault(history.Event{At: 30 * second, Text: "cut"})
	w.endFault(history.Event{At: 40 * second, Text: "cut"})
	w.beginFault(history.Event{At: 90 * second, Text: "slow disk", Who: "n2"})
	for _, c := range []struct {
		from, till time.Duration
		calm       bool
	}{
		{9 * second, 10 * second, false},
		{10 * second, 29 * second, true},
		{10 * second, 30 * second, false},
		{50 * second, 60 * second, false},
		{50*second + 1, 60 * second, true},
		{50*second + 1, 90 * second, false},
		{200 * second, 201 * second, false},
	} {
		if got := w.calm(c.from, c.till); got != c.calm {
			t.Errorf("calm from %v till %v is %v, want %v", c.from, c.till, got, c.calm)
		}
	}
	if !w.single(60*second, 100*second, "n1") || w.single(60*second, 100*second, "n2") {
		t.Error("single: a fault at n2 alone is one fault of a follower of n1, and none of n2 as the leader")
	}
	if w.single(45*second, 100*second, "n1") {
		t.Error("single: a fault that concerns several nodes counts as a fault of one")
	}
}

// The credit for a stall runs from a quarter of an interval before it to two intervals after it, and no moment counts
// twice. Stalls of up to an interval earn none.
func TestCreditForStalls(t *testing.T) {
	n := newFacts(bounds()).nodes
	n.start(history.Event{Who: "n1", Node: 1})
	n.stall(history.Event{Who: "n1", Sent: 10 * second, At: at(10.5)})
	n.stall(history.Event{Who: "n1", Sent: 20 * second, At: 22 * second})
	n.stall(history.Event{Who: "n1", Sent: at(22.5), At: 24 * second})
	for _, c := range []struct {
		from, till, want time.Duration
	}{
		{0, 15 * second, 0},
		{0, 21 * second, at(3.125)},
		{0, 30 * second, at(5.125)},
		{22 * second, 30 * second, at(2.625)},
		{24 * second, 30 * second, 0},
	} {
		if got := n.credit(1, c.from, c.till); got != c.want {
			t.Errorf("credit from %v till %v is %v, want %v", c.from, c.till, got, c.want)
		}
	}
	for _, c := range []struct{ received, want time.Duration }{
		{15 * second, at(20.125)},
		{21 * second, at(26.125)},
		{at(22.1), at(27.125) - 1}, // if it was the moment before 22, when both stalls count
		{at(23), at(27.125) - 1},
		{at(24.1), at(27.125) - 1},
		{at(30), at(30)},
	} {
		if got := n.spared(1, c.received, 40*second); got != c.want {
			t.Errorf("the silence of a session with messages up to %v counts from %v, want %v", c.received, got, c.want)
		}
	}
	if got := n.credit(2, 0, minute); got != 0 {
		t.Errorf("credit of a node that never stalled is %v, want 0", got)
	}
}

// A term's clock runs for two intervals from its start and from each good round.
func TestClockOfATermStands(t *testing.T) {
	l := newFacts(bounds()).leaders
	for _, e := range append(beat("n1", 2, 20, 1, 2), beat("n1", 2, 23, 1, 2)...) {
		if other := l.listen(e); other != "" {
			t.Fatalf("%s is reported as another leader", other)
		}
	}
	usurper := history.Event{Kind: history.AnswerReceived, Who: "n2", Term: 2, Node: 1, Sent: 24 * time.Second}
	if other := l.listen(usurper); other != "n1" {
		t.Errorf("the other leader of term 2 is %q, want n1", other)
	}
	l.closeTerms()
	if got, want := l.terms[2].stoppedFor(20*second, 23*second), 2*second; got > want || got < want-100*time.Millisecond {
		t.Errorf("the clock was stopped for %v, want a little below %v", got, want)
	}
}
