//go:build e2e

package e2e

import (
	"slices"
	"testing"
	"time"

	"holdfast/test/timeout"
)

// box starts a competitor in a container. Its worker notes what it does in the same record as all others.
func (x *competition) box(job string, flags ...string) *box {
	x.c.t.Helper()
	return x.c.box(boxed{holdfast: append(under("lock", x.lock), flags...), program: job, record: x.dir, cable: true})
}

// TestLockHolderWhosePacketsAreDropped: nothing that a holder sends comes to a node any more, though all nodes run,
// serve each other and answer on open connections. A rival that reaches the nodes gets the lock meanwhile.
//
// The first holder's program is told to end and is killed before the rival's begins. The second's runs on, as
// --on-lost continue says: the third begins only after the second's safe time, and all that the second writes from then
// on is refused, also once its packets come through again.
func TestLockHolderWhosePacketsAreDropped(t *testing.T) {
	c := up(t, 3)
	x := c.competition("dropped")
	first := x.box("steady")
	one := x.first("wrote", 0)
	second := x.box("steady", "--on-lost", "continue")

	cutFirst := first.cut(direction("out"))
	x.first("term", 0)
	killed := first.said("killed /worker")
	two := x.first("wrote", one.token)
	x.wantBegun(two, killed)
	first.ends(128 + 9)
	cutFirst.heal()

	x.box("steady")
	cut := time.Now()
	cutSecond := second.cut(direction("out"))
	unsafe := second.said("the hold is over")
	if after := unsafe.Sub(cut); after < minTimeout/3 {
		timeout.Fatalf(t, "the second holder was safe for only %v, by a session's timeout of %v", after, minTimeout)
	}
	three := x.first("wrote", two.token)
	x.wantBegun(three, unsafe)
	took(t, "next holder after the safe time", x.first("begin", two.token).at.Sub(unsafe))
	cutSecond.heal()
	healed := time.Now()
	c.await(healWithin, "the resource refuses what the second holder writes after the cut", func() (bool, string) {
		return slices.ContainsFunc(x.record(), func(l line) bool {
			return l.what == "refused" && l.token == two.token && l.at.After(healed)
		}), "no such note"
	})
	x.wantHeldBy(three)
}

// wantBegun checks that a holder began after the former one could no longer do anything.
func (x *competition) wantBegun(present line, former time.Time) {
	x.c.t.Helper()
	begin := x.first("begin", present.token-1)
	if begin.token != present.token || begin.at.Before(former) {
		x.c.t.Errorf("%v began at %v, want %v to begin after %v", begin.token, begin.at, present.token, former)
	}
}
