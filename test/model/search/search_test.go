package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// cups is a machine with two cups: each step fills one by one, or pours one into the other. What is wanted breaks when
// the second has goal. A state from which nothing can be poured never quiesces.
type cups struct{ First, Second, Spilt uint8 }

const (
	tooFull Invariants = 1 << iota
	stuck
)

func machine(goal uint8, wanted Invariants) *Machine[cups] {
	x := &Step{Protocol: &Protocol{Invariants: []string{"full", "stuck"}}}
	names := []string{"fill", "pour", "spill"}
	return &Machine[cups]{
		Events: len(names), Wanted: wanted, Step: x,
		Try: func(s *cups, event int) bool {
			switch {
			case event == 0 && s.First < 5:
				s.First++
			case event == 1 && s.First > 0:
				s.First, s.Second = 0, s.Second+s.First
			case event == 2 && s.Spilt < 3:
				s.Spilt++
			default:
				return false
			}
			if s.Second == goal {
				x.Breaks(tooFull, "there are %d in it", goal)
			}
			s.Second = min(s.Second, 9)
			return true
		},
		Quiesce: func(s *cups) {
			if s.Spilt == 3 {
				x.Breaks(stuck, "nothing is left")
			}
		},
		Weight:  func(int) int { return 1 },
		Opening: "both are empty",
		Name:    func(event int) string { return names[event] },
	}
}

func TestExploreSeesEveryStateOnce(t *testing.T) {
	got := Explore(t.Context(), func() *Machine[cups] { return machine(0xff, tooFull) }, 0)
	if got.States != 6*10*4 || !got.Complete || got.Broken != 0 {
		t.Errorf("%+v, want all states of 6, 10 and 4", got)
	}
	bounded := Explore(t.Context(), func() *Machine[cups] { return machine(0xff, tooFull) }, 20)
	if bounded.States < 20 || bounded.States > 100 || bounded.Complete {
		t.Errorf("with a bound of 20 states: %+v", bounded)
	}
}

func TestExploreFindsAShortestHistory(t *testing.T) {
	for _, c := range []struct {
		wanted Invariants
		steps  int
		last   string
	}{
		{tooFull, 9, "  9. pour: BREAKS full: there are 7 in it"}, // two pours of 3 and 4
		{stuck, 3, "  -  BREAKS stuck: nothing is left"},
		{tooFull | stuck, 3, "  -  BREAKS stuck: nothing is left"},
	} {
		got := Explore(t.Context(), func() *Machine[cups] { return machine(7, c.wanted) }, 0)
		story := machine(7, c.wanted).Story(got.Story)
		if len(got.Story) != c.steps || got.Broken&c.wanted == 0 || !strings.Contains(story, c.last) {
			t.Errorf("for %b: %d steps break %b, want %d steps and %q\n%s", c.wanted, len(got.Story), got.Broken, c.steps,
				c.last, story)
		}
	}
}

// A walk finds the same, and its story has no step that can be spared.
func TestWalksShrink(t *testing.T) {
	for wanted, steps := range map[Invariants]int{tooFull: 9, stuck: 3} {
		got := Walk(t.Context(), machine(7, wanted), 1, 1000)
		if got.Broken != wanted || len(got.Story) != steps {
			t.Errorf("%d walks break %b in %d steps, want %b in %d", got.Walks, got.Broken, len(got.Story), wanted, steps)
		}
	}
}

// In a machine with an event without weight time passes whenever nothing else is possible, and ends the history.
func TestTimePassesAndEndsAHistory(t *testing.T) {
	m := machine(0xff, tooFull)
	m.Weight = func(event int) int { return []int{1, 1, 0}[event] }
	fill := m.Try
	m.Try = func(s *cups, event int) bool { return (event != 1 || s.Second < 9) && fill(s, event) }
	history, _ := m.Once(1)
	spilt := 0
	for _, event := range history {
		if event == 2 {
			spilt++
		}
	}
	if spilt != 3 {
		t.Errorf("time passed %d times in %v, want 3", spilt, history)
	}
}

func TestPackedStatesComeBackAsTheyWere(t *testing.T) {
	type state [700]uint8
	random := rand.New(rand.NewPCG(1, 6))
	var chunk []byte
	var want []state
	for number := range uint32(200) {
		var s state
		for range random.IntN(80) {
			s[random.IntN(len(s))] = uint8(random.IntN(3))
		}
		if number%10 == 0 {
			for i := range s {
				s[i] = uint8(random.IntN(256))
			}
		}
		want, chunk = append(want, s), packed(chunk, &s, number)
	}
	for i := range want {
		var got state
		got[random.IntN(len(got))] = 1
		var number uint32
		if number, chunk = unpack(&got, chunk); got != want[i] || number != uint32(i) {
			t.Fatalf("state %d comes back different, with number %d", i, number)
		}
	}
	if len(chunk) != 0 {
		t.Errorf("%d bytes are left after the last state", len(chunk))
	}
}

func TestAStateHasBytesOnly(t *testing.T) {
	defer func() {
		if r := fmt.Sprint(recover()); !strings.Contains(r, "time.Duration") {
			t.Errorf("a state with a time.Duration: %s", r)
		}
	}()
	mustBeBytes[cups]()
	mustBeBytes[struct {
		Few  [3]cups
		Much [2]struct{ Time time.Duration }
	}]()
}

func TestNamesOfRules(t *testing.T) {
	p := Protocol{Rules: []Text{{"A1", "no a"}, {"B2", "no b"}, {"C3", "no c"}}}
	left := Rules(0, 2)
	if names, texts := p.Names(left), p.Texts(left); names != "A1, C3" || texts != "no a; no c" {
		t.Errorf("%q, %q", names, texts)
	}
	obeyed := slices.DeleteFunc([]Rule{0, 1, 2}, func(r Rule) bool { return !(&Step{Without: left}).Obeys(r) })
	if !slices.Equal(obeyed, []Rule{1}) {
		t.Errorf("without %v, %v are obeyed", left, obeyed)
	}
}
