package succession

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
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
	// until bounds the time of the histories.
	until time.Duration
}

func scopes() []scope {
	return []scope{
		{name: "three, leader ended", size: 3, until: 300 * time.Millisecond},
		{name: "three, a letter is lost", size: 3, faults: faults{losses: 1}, until: 60 * time.Millisecond},
		{name: "three, unanswered", size: 3, faults: faults{silences: 1}, until: 200 * time.Millisecond},
		{name: "three, a voter starts again", size: 3, faults: faults{restarts: 1}, until: 60 * time.Millisecond},
		{
			name: "three, leader lives, one is cut off", size: 3, lives: true, cut: []session.Node{2},
			faults: faults{restarts: 1, resets: 2, silences: 1}, until: 170 * time.Millisecond,
		},
		{
			name: "three, leader lives, connections are reset", size: 3, lives: true, faults: faults{resets: 4},
			until: 320 * time.Millisecond,
		},
		{name: "five, leader ended", size: 5, until: 5 * time.Millisecond},
	}
}

// most returns how many states a search looks at; STATES sets another number.
func most(t *testing.T) int {
	t.Helper()
	s := cmp.Or(os.Getenv("STATES"), "4000")
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("STATES: %v", err)
	}
	return n
}

// TestNoHistoryIsWrong tries all histories of small worlds: two voters never stand at the same time in the same term,
// and no voter stands while a majority reaches a living leader.
func TestNoHistoryIsWrong(t *testing.T) {
	most := most(t)
	for _, s := range scopes() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			seen := map[string]bool{}
			queue := []*world{newWorld(s)}
			stood := 0
			for len(queue) > 0 && len(seen) < most {
				w := queue[0]
				queue = queue[1:]
				for _, do := range w.next() {
					next := w.after(do)
					if why := next.wrong(); why != "" {
						t.Fatalf("%s:\n%s", why, strings.Join(next.story, "\n"))
					}
					if k := next.key(); !seen[k] && next.now <= s.until {
						seen[k] = true
						queue = append(queue, next)
						stood += len(next.stood)
					}
				}
			}
			t.Logf("%d states, %d left to look at", len(seen), len(queue))
			if stood == 0 && !s.lives {
				t.Error("nobody ever stands: the search shows nothing")
			}
		})
	}
}

// TestNoWalkIsWrong goes through long random histories of three and five voters, with all faults.
func TestNoWalkIsWrong(t *testing.T) {
	walks := most(t) / 20
	all := faults{losses: 3, restarts: 2, resets: 3, silences: 1}
	for _, s := range []scope{
		{name: "three", size: 3, faults: all},
		{name: "five", size: 5, faults: all},
		{name: "five, few faults", size: 5, faults: faults{losses: 2}},
		{name: "three, leader lives", size: 3, lives: true, cut: []session.Node{3}, faults: all},
		{name: "five, leader lives", size: 5, lives: true, cut: []session.Node{2, 3}, faults: all},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			stood := 0
			for seed := range walks {
				r := rand.New(rand.NewPCG(uint64(seed), 1))
				w := newWorld(s)
				for w.now < 2*Span {
					all := w.next()
					if len(all) == 0 {
						break
					}
					w = w.after(all[r.IntN(len(all))])
					if why := w.wrong(); why != "" {
						t.Fatalf("seed %d: %s:\n%s", seed, why, strings.Join(w.story, "\n"))
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
					want = Patience
				}
				if len(w.stood) != 1 || w.stood[0].node != 2 || w.stood[0].at != want {
					t.Fatalf("stood: %+v, want node 2 after %v:\n%s", w.stood, want, strings.Join(w.story, "\n"))
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
