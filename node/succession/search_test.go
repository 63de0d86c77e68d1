package succession

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"holdfast/session"
)

// scope is a world to search, and how much of it.
type scope struct {
	name   string
	size   int
	lives  bool
	cut    []session.Node
	faults faults
	// patient voters take no silence for evidence.
	patient bool
	// until bounds the time of the histories, events the number of their events; 0 for no bound. A sample is not
	// searched completely.
	until  time.Duration
	events int
	sample bool
}

func scopes() []scope {
	const ms = time.Millisecond
	one := []session.Node{2}
	return []scope{
		{name: "three, leader ended", size: 3, until: 60 * ms},
		{name: "three, leader ended, for longer", size: 3, until: 300 * ms, events: 9},
		{name: "three, a letter is lost", size: 3, faults: faults{losses: 1}, until: 60 * ms},
		{name: "three, unanswered", size: 3, faults: faults{silences: 1}, until: 200 * ms, events: 8},
		{name: "three, a voter starts again", size: 3, faults: faults{restarts: 1}, until: 60 * ms},
		{
			name: "three, leader lives, one is cut off", size: 3, lives: true, cut: one,
			faults: faults{restarts: 1, resets: 2, silences: 1}, until: 170 * ms, events: 9,
		},
		{
			name: "three, leader lives, connections are reset", size: 3, lives: true, faults: faults{resets: 4},
			until: 320 * ms,
		},
		{name: "three, leader freezes", size: 3, lives: true, faults: faults{freezes: 1}, until: limit + 80*ms},
		{
			name: "three, leader freezes and goes on", size: 3, lives: true, faults: faults{freezes: 1, thaws: 1},
			until: limit + 80*ms,
		},
		{name: "three, leader lives, voters pause", size: 3, lives: true, faults: faults{pauses: 2}, until: 2 * limit},
		{
			name: "three, leader freezes, a voter pauses", size: 3, lives: true, faults: faults{freezes: 1, pauses: 1},
			until: limit + 60*ms,
		},
		{name: "five, leader ended", size: 5, until: 5 * ms},
		{
			name: "five, leader freezes", size: 5, sample: true, lives: true, faults: faults{freezes: 1, pauses: 1},
			until: 2 * limit,
		},
	}
}

// most returns how many states of a sample a search looks at; STATES sets another number.
func most(t *testing.T) int {
	t.Helper()
	s := cmp.Or(os.Getenv("STATES"), "4000")
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("STATES: %v", err)
	}
	return n
}

// TestNoHistoryIsWrong tries all histories of small worlds, up to a moment or to a number of events: two voters never
// stand at the same time in the same term, and no voter stands while a majority reaches a living leader, or because of
// silence while the lease of a frozen leader lasts. It covers about 100,000 states of three voters; of five voters it is
// a sample.
func TestNoHistoryIsWrong(t *testing.T) {
	most := most(t)
	for _, s := range scopes() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			f := search(t, s, most)
			t.Logf("%d states, all histories of up to %d events, %d left to look at", f.states, f.events, f.left)
			if f.stood == 0 && (!s.lives || s.faults.freezes > 0) {
				t.Error("nobody ever stands: the search shows nothing")
			}
			if !s.sample && f.left > 0 && f.events < s.events {
				t.Errorf("the search ended early: %d states are left", f.left)
			}
		})
	}
}

// found is what a search covered: different states, histories of so many events, and states whose successors were not
// looked at.
type found struct{ states, events, left, stood int }

// search looks at the worlds of a scope in the order of the number of events.
func search(t *testing.T, s scope, most int) (f found) {
	t.Helper()
	seen := map[string]bool{}
	for level := []*world{newWorld(s)}; len(level) > 0; f.events++ {
		if s.events > 0 && f.events == s.events || s.sample && len(seen) >= most {
			f.left = len(level)
			break
		}
		var next []*world
		for _, w := range level {
			for _, do := range w.next() {
				n := w.after(do)
				if n.bad != "" {
					t.Fatalf("%s:\n%s", n.bad, n.story())
				}
				if k := n.key(); n.now <= s.until && !seen[k] {
					seen[k] = true
					f.stood += len(n.stood)
					next = append(next, n)
				}
			}
		}
		level = next
	}
	f.states = len(seen)
	return f
}

// TestNoWalkIsWrong goes through long random histories of three and five voters, with all faults.
func TestNoWalkIsWrong(t *testing.T) {
	walks := most(t) / 20
	all := faults{losses: 3, restarts: 2, resets: 3, silences: 1, pauses: 2}
	frozen := faults{losses: 2, pauses: 1, freezes: 1}
	for _, s := range []scope{
		{name: "three", size: 3, faults: all},
		{name: "five", size: 5, faults: all},
		{name: "five, few faults", size: 5, faults: faults{losses: 2}},
		{name: "three, leader lives", size: 3, lives: true, cut: []session.Node{3}, faults: all},
		{name: "five, leader lives", size: 5, lives: true, cut: []session.Node{2, 3}, faults: all},
		{name: "three, leader freezes", size: 3, lives: true, faults: frozen},
		{name: "five, leader freezes", size: 5, lives: true, faults: frozen},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			stood := 0
			for seed := range walks {
				r := rand.New(rand.NewPCG(uint64(seed), 1))
				w := newWorld(s)
				for w.now < 2*Span+limit {
					all := w.next()
					if len(all) == 0 {
						break
					}
					w = w.after(all[r.IntN(len(all))])
					if w.bad != "" {
						t.Fatalf("seed %d: %s:\n%s", seed, w.bad, w.story())
					}
				}
				if len(w.stood) > 0 {
					stood++
				}
			}
			t.Logf("somebody stood in %d of %d walks", stood, walks)
			if stood < walks/4 && !s.lives {
				t.Errorf("somebody stood in only %d of %d walks", stood, walks)
			}
		})
	}
}

// TestHowLongItTakes plays the plain case: every answer comes at once. The first in turn stands without any wait if the
// others have noticed the end too, and nobody else does.
func TestHowLongItTakes(t *testing.T) {
	for _, size := range []int{3, 5} {
		for _, silent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, silent %v", size, silent), func(t *testing.T) {
				w := newWorld(scope{size: size})
				for w.now < Span && len(w.stood) == 0 {
					w = w.promptly(silent)
				}
				want := time.Duration(0)
				if silent {
					want = AnswerTimeout
				}
				if len(w.stood) != 1 || w.stood[0].node != 2 || w.stood[0].at != want {
					t.Fatalf("stood: %+v, want node 2 after %v:\n%s", w.stood, want, w.story())
				}
			})
		}
	}
}

// promptly lets whatever is under way arrive, or else time pass.
func (w *world) promptly(silent bool) *world { //nolint:revive // flag-parameter: the test's only variant
	w = w.clone()
	for len(w.looks) > 0 {
		l := w.looks[0]
		w.looks = w.looks[1:]
		found := Refused
		if silent {
			found = Unclear
		}
		w.does(l.node, w.at(l.node).machine.Found(w.time(), w.facts(l.node), l.number, found))
	}
	for len(w.letters) > 0 {
		l := w.letters[0]
		w.letters = w.letters[1:]
		w.deliver(l)
	}
	if len(w.stood) > 0 {
		return w
	}
	w.now = w.due()
	for _, n := range w.others() {
		if wake := w.at(n).wake; !wake.IsZero() && !wake.After(w.time()) {
			w.wakeUp(n)
		}
	}
	return w
}
