package check

import (
	"testing"

	"holdfast/test/sim/history"
)

// frozen plants a freeze of a node: from a moment on, for some seconds, until it is thawed. Its entries are 100 and
// 101.
func frozen(who string, from, lasts, till float64) plant {
	return frozenBy(who, []uint64{100, 101}, from, lasts, till)
}

func frozenBy(who string, entries []uint64, from, lasts, till float64) plant {
	return add(
		history.Event{
			At: at(from), Kind: history.FreezeBegan, Who: who, Index: entries[0], Timeout: at(lasts), Until: at(from + lasts),
		},
		history.Event{At: at(till), Kind: history.Thawed, Who: who, Index: entries[1]},
	)
}

// localEnds has the node of a local session end it at a moment, of age seconds after its last touch.
func localEnds(seconds, age float64) plant {
	return of(expires2, history.LocalEnded, func(e *history.Event) {
		e.At, e.Certificate.LastTouchAge = at(seconds), at(age)
	})
}

// TestFreezesAreJudged plants freezes around the expiry of a good history. It decides at 40.252 s, and the end is entry
// 7.
func TestFreezesAreJudged(t *testing.T) {
	findAll(t, []wrong{
		{"a decision in a freeze (Y3)", "Y3", "decides to end it in a freeze", frozen("n1", 40.1, 10, 41)},
		{"a decision in a freeze whose process ends", "Y3", "decides to end it in a freeze", all(
			add(history.Event{
				At: at(40.1), Kind: history.FreezeBegan, Who: "n1", Index: 100, Timeout: 10 * second, Until: at(50.1),
			}),
			restarted("n1", 1, 45))},
		{"an end in the state of a freeze (Y3)", "Y3", "in a freeze", frozenBy("n2", []uint64{6, 8}, 40.268, 10, 41)},
		{"a decision within a timeout of the thaw", "I1", "after the end of a freeze", all(
			storm(30, 49), frozen("n1", 36.1, 10, 36.5))},
		{"a decision within a timeout of a freeze's bound", "I1", "after the end of a freeze", all(
			storm(30, 49), frozen("n1", 36.1, 0.3, 37.5))},
		{"a session that outlives the thaw", "I2", "(thawed since", all(
			storm(20, 32), frozen("n1", 36.1, 10, 37), expires(42.4))},
	})
	wide := unless(func(e history.Event) bool { return e.ID == expires2 && e.Kind == history.LearntGone })
	for _, tt := range []wrong{
		{"a local session that ends in a freeze", "Y3", "its node ended it in a freeze", frozen("n2", 68.2, 10, 69)},
		{"a local session that outlives the thaw", "I2", "its node ended it", all(
			wide, frozen("n2", 64.5, 10, 65), localEnds(69.5, 5.499))},
	} {
		t.Run(tt.name, func(t *testing.T) { mustFind(t, tt.plant(goodLocal()), tt.invariant, tt.words) })
	}
}

// TestFreezesExcuse plants freezes that put ends off as they should.
func TestFreezesExcuse(t *testing.T) {
	for name, tt := range map[string]struct {
		h     []history.Event
		count string
	}{
		"thaw": {
			all(storm(20, 32), frozen("n1", 36.1, 10, 37), expires(41.252))(good()), "I2 thawed",
		},
		"bound": {
			all(storm(30, 49), frozen("n1", 36.1, 0.5, 37), expires(40.7))(good()), "I1 thaw",
		},
		"another's freeze":  {frozen("n3", 39, 10, 45)(good()), "I2 silent"},
		"before the freeze": {frozenBy("n2", []uint64{7, 101}, 40.269, 10, 45)(good()), "Y3 state"},
		"with the thaw":     {frozenBy("n2", []uint64{5, 7}, 30, 1, 40.27)(good()), "Y3 state"},
		"a local session": {
			all(frozen("n2", 64.5, 10, 66), localEnds(70.249, 6.248), of(expires2, history.LearntGone,
				func(e *history.Event) { e.At = at(71) }))(goodLocal()), "Y3 local",
		},
	} {
		r := Check(sorted(tt.h), bounds())
		for _, v := range r.Violations {
			t.Errorf("%s: %s", name, v)
		}
		if r.Checked[tt.count] == 0 {
			t.Errorf("%s: %s was not put to the test", name, tt.count)
		}
	}
}
