package check

import (
	"slices"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

const (
	id      = session.ID(0x0100000000010000)
	timeout = 4 * time.Second
	second  = time.Second
	minute  = time.Minute
)

func bounds() Bounds {
	return Bounds{ExpiryInterval: 250 * time.Millisecond, Commit: 750 * time.Millisecond, Settle: 10 * time.Second}
}

// good is a run in which nothing is wrong: a session lives on n1, moves to n2, falls silent and expires.
func good() []history.Event {
	return []history.Event{
		{At: 30 * second, Kind: history.AppliedOpen, Who: "n1", ID: id, Attachment: 1, Index: 5, Term: 2, Timeout: timeout},
		{At: 30 * second, Kind: history.AppliedOpen, Who: "n2", ID: id, Attachment: 1, Index: 5, Term: 2, Timeout: timeout},
		{At: 30 * second, Kind: history.Digest, Who: "n1", Index: 5, Text: "aa"},
		{At: 30 * second, Kind: history.Digest, Who: "n2", Index: 5, Text: "aa"},
		{At: 30 * second, Kind: history.Opened, Who: "c1", ID: id, Attachment: 1, Asked: 30 * second, Until: 33 * second},
		{At: 32 * second, Kind: history.Touched, Who: "c1", ID: id, Attachment: 1, Asked: 32 * second, Until: 35 * second},
		{At: 34 * second, Kind: history.AppliedMove, Who: "n1", ID: id, Attachment: 2, Index: 6, Term: 2, Timeout: timeout},
		{At: 34 * second, Kind: history.Resumed, Who: "c2", ID: id, Attachment: 2, Asked: 34 * second, Until: 37 * second},
		{At: 34 * second, Kind: history.ToldMoved, Who: "c1", ID: id, Attachment: 1},
		{At: 36 * second, Kind: history.Touched, Who: "c2", ID: id, Attachment: 2, Asked: 36 * second, Until: 39 * second},
		{At: 36 * second, Kind: history.Silent, Who: "c2", ID: id, Attachment: 2},
		{At: 36 * second, Kind: history.Silent, Who: "c1", ID: id, Attachment: 1},
		{At: 39 * second, Kind: history.ContextEnded, Who: "c2", ID: id},
		ended(40*second+20*time.Millisecond, "n1"),
		ended(40*second+30*time.Millisecond, "n2"),
		{At: 41 * second, Kind: history.ToldGone, Who: "c2", ID: id},
		{At: 50 * second, Kind: history.Healed},
		{At: 2 * minute, Kind: history.Finished},
	}
}

func ended(at time.Duration, who string) history.Event {
	return history.Event{
		At: at, Kind: history.AppliedEnd, Who: who, ID: id, Attachment: 2, Index: 7, Term: 2, Timeout: timeout, Cause: session.CauseExpired,
		Certificate: &session.Certificate{LastTouchAge: 4020 * time.Millisecond},
	}
}

func TestGoodHistoryHoldsAndIsChecked(t *testing.T) {
	r := Check(good(), bounds())
	for _, v := range r.Violations {
		t.Error(v)
	}
	for _, name := range []string{"I1", "I1 certificate", "I2", "I3", "I4", "E5", "I6", "I7", "context", "told moved"} {
		if r.Checked[name] == 0 {
			t.Errorf("%s was not put to the test", name)
		}
	}
}

// A session whose close its client has asked for needs no promise.
func TestClosingIsNotUnserved(t *testing.T) {
	closing := []history.Event{
		{At: 90 * second, Kind: history.CloseAsked, Who: "c3", ID: id + 1, Attachment: 9},
		{At: 90 * second, Kind: history.Alive, Who: "c3", ID: id + 1, Attachment: 9},
	}
	if r := Check(append(good(), closing...), bounds()); len(r.Violations) != 0 {
		t.Errorf("got %v, want no violation", r.Violations)
	}
}

// TestBadHistoryIsFound plants one fault at a time into the good run.
func TestBadHistoryIsFound(t *testing.T) {
	add := func(e history.Event) func([]history.Event) []history.Event {
		return func(h []history.Event) []history.Event { return append(h, e) }
	}
	change := func(k history.Kind, who string, f func(*history.Event)) func([]history.Event) []history.Event {
		return func(h []history.Event) []history.Event {
			for i := range h {
				if h[i].Kind == k && (who == "" || h[i].Who == who) {
					f(&h[i])
				}
			}
			return h
		}
	}
	drop := func(k history.Kind) func([]history.Event) []history.Event {
		return func(h []history.Event) []history.Event {
			return slices.DeleteFunc(h, func(e history.Event) bool { return e.Kind == k })
		}
	}
	tests := []struct {
		name, invariant string
		plant           func([]history.Event) []history.Event
	}{
		{"expired within a timeout of a touch", "I1", change(history.AppliedEnd, "n1", func(e *history.Event) { e.At = 39500 * time.Millisecond })},
		{"certificate of a touch within the timeout", "I1", change(history.AppliedEnd, "n1", func(e *history.Event) {
			e.Certificate.LastTouchAge = 3999 * time.Millisecond
		})},
		{"expired a second late", "I2", change(history.AppliedEnd, "", func(e *history.Event) { e.At += 1100 * time.Millisecond })},
		{"never expired", "I2", drop(history.AppliedEnd)},
		{"alive without a promise long after the heal", "I2", add(history.Event{At: 90 * second, Kind: history.Alive, Who: "c3", ID: id + 1, Attachment: 9})},
		{"expired before a promise ends", "I3", change(history.Touched, "c2", func(e *history.Event) { e.Until = 40*second + 21*time.Millisecond })},
		{"context after the expiry", "I3", change(history.ContextEnded, "", func(e *history.Event) { e.At = 40*second + 21*time.Millisecond })},
		{"promise by a touch through the old attachment", "I4", add(history.Event{
			At: 35 * second, Kind: history.Touched, Who: "c1", ID: id, Attachment: 1, Asked: 33 * second, Until: 38*second + 1,
		})},
		{"touch taken through the old attachment", "I4", add(history.Event{
			At: 36 * second, Kind: history.Touched, Who: "c1", ID: id, Attachment: 1, Asked: 36 * second,
		})},
		{"close through the old attachment", "I4", add(history.Event{
			At: 36 * second, Kind: history.Closed, Who: "c1", ID: id, Attachment: 1, Asked: 35 * second,
		})},
		{"the victim never hears", "I4", add(history.Event{
			At: 90 * second, Kind: history.Alive, Who: "c1", ID: id, Attachment: 1, Until: 91 * second,
		})},
		{"told of a move that was none", "I4", drop(history.AppliedMove)},
		{"told of the end before it", "E5", change(history.ToldGone, "", func(e *history.Event) { e.At = 40 * second })},
		{"alive after its end", "E5", add(history.Event{At: 90 * second, Kind: history.Alive, Who: "c2", ID: id, Attachment: 2, Until: 91 * second})},
		{"digests differ", "I6", add(history.Event{At: 31 * second, Kind: history.Digest, Who: "n3", Index: 5, Text: "ab"})},
		{"ended by two entries", "I6", change(history.AppliedEnd, "n2", func(e *history.Event) { e.Index++ })},
		{"attachment given twice", "I6", add(history.Event{At: 50 * second, Kind: history.AppliedMove, Who: "n1", ID: id + 1, Attachment: 2, Index: 9})},
		{"id opened twice", "I7", add(history.Event{At: 60 * second, Kind: history.AppliedOpen, Who: "n1", ID: id, Attachment: 3, Index: 20, Term: 2, Timeout: timeout})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := tt.plant(good())
			slices.SortStableFunc(h, func(a, b history.Event) int { return int(a.At - b.At) })
			r := Check(h, bounds())
			if !slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Invariant == tt.invariant }) {
				t.Errorf("got %v, want a violation of %s in:\n%s", r.Violations, tt.invariant, history.Story(h, id))
			}
		})
	}
}

// TestFaultsExcuse shows what a fault excuses, and what not.
func TestFaultsExcuse(t *testing.T) {
	tests := []struct {
		name string
		end  time.Duration
		want []string
	}{
		{"late under a fault", 50 * second, nil},
		{"late long after the last fault", 70 * second, []string{"I2"}},
		{"within a timeout of a touch that the owner could not report", 39500 * time.Millisecond, nil},
		{"within a promise", 38900 * time.Millisecond, []string{"I3", "I3"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := slices.DeleteFunc(good(), func(e history.Event) bool { return e.Kind == history.ToldGone })
			h = append(h,
				history.Event{At: 35 * second, Kind: history.FaultBegan, Text: "cut n2"},
				history.Event{At: 50 * second, Kind: history.FaultEnded, Text: "cut n2"})
			for i := range h {
				if h[i].Kind == history.AppliedEnd {
					h[i].At = tt.end
				}
			}
			slices.SortStableFunc(h, func(a, b history.Event) int { return int(a.At - b.At) })
			var got []string
			for _, v := range Check(h, bounds()).Violations {
				got = append(got, v.Invariant)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
