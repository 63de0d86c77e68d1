package faults

import (
	"context"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

func (c *cluster) Drain(n string) func() bool {
	c.with(func() { c.broken["service of "+n]++; c.did["drain"]++ })
	return func() bool { c.with(func() { c.broken["service of "+n]-- }); return true }
}

func (c *cluster) Freeze(time.Duration) func() bool {
	c.with(func() { c.broken["expiry"]++; c.did["freeze"]++ })
	return func() bool { c.with(func() { c.broken["expiry"]-- }); return true }
}

func (c *cluster) EndSessions(context.Context, float64) int { c.count("end sessions"); return 1 }
func (c *cluster) Extend(context.Context, float64) int      { c.count("extend"); return 1 }

// TestActs shows that a plan of an operator's acts follows the seed, and that a freeze comes while extensions last.
func TestActs(t *testing.T) {
	plans := func(seed uint64) [2][]Fault {
		ends, keeps := Acts(rand.New(rand.NewPCG(seed, 0)), 5)
		return [2][]Fault{ends, keeps}
	}
	if !reflect.DeepEqual(plans(1), plans(1)) || reflect.DeepEqual(plans(1), plans(2)) {
		t.Error("plans do not depend on the seed alone")
	}
	kinds := func(plan []Fault) (all []Kind) {
		for _, f := range plan {
			all = append(all, f.Kind)
		}
		return all
	}
	ends, keeps := plans(1)[0], plans(1)[1]
	if got, want := kinds(ends), []Kind{EndSessions, EndSessions}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := kinds(keeps), []Kind{Extend, Freeze, Extend}; !reflect.DeepEqual(got, want) || !keeps[1].Overlaps ||
		keeps[2].Overlaps {
		t.Errorf("got %v, want %v, and the freeze while the first lasts", keeps, want)
	}
	for k := range map[Kind]bool{EndSessions: true, Extend: true} {
		if !k.Harmless() {
			t.Errorf("%s: an allowance is made", k)
		}
	}
	if Drain.Harmless() || Freeze.Harmless() || Kill.Harmless() {
		t.Error("no allowance is made for a drain, a freeze or a kill")
	}
}
