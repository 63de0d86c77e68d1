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

func (c *cluster) Add(bool) (string, func() bool) {
	c.with(func() { c.broken["members"]++; c.did["add"]++ })
	return "n6", c.changed
}

func (c *cluster) Demote(n string) (string, func() bool) {
	c.with(func() { c.broken["members"]++; c.did["demote"]++ })
	return n, c.changed
}

func (c *cluster) Remove(n string, _ float64) (string, func() bool) {
	c.with(func() { c.broken["members"]++; c.did["remove"]++ })
	return n, c.changed
}

func (c *cluster) Transfer(string) func() bool {
	c.with(func() { c.broken["members"]++; c.did["transfer"]++ })
	return c.changed
}

func (c *cluster) changed() bool { c.with(func() { c.broken["members"]-- }); return true }

// TestChanges shows that a plan of changes follows the seed, and never removes more nodes than it has added.
func TestChanges(t *testing.T) {
	plan := func(seed uint64) []Fault { return Changes(rand.New(rand.NewPCG(seed, 0)), 5) }
	if !reflect.DeepEqual(plan(1), plan(1)) || reflect.DeepEqual(plan(1), plan(2)) {
		t.Error("plans do not depend on the seed alone")
	}
	overlap := false
	for seed := range uint64(20) {
		more := 0
		for _, f := range plan(seed) {
			overlap = overlap || f.Overlaps
			if f.Kind == Add {
				more++
			}
			if f.Kind == Remove {
				more--
			}
			if more < 0 {
				t.Fatalf("seed %d removes a node before it adds one: %v", seed, plan(seed))
			}
		}
	}
	if !overlap {
		t.Error("leadership is never transferred in the middle of a change")
	}
}

// A change that cannot be made now is no fault.
func TestNothingToChange(t *testing.T) {
	c := &fixed{newCluster()}
	for _, k := range []Kind{Add, Demote, Remove} {
		if b := begin(t.Context(), Fault{Kind: k, Nodes: []int{0, 1, 2, 3, 4}}, c); b != nil {
			t.Errorf("%s: %+v", k, b)
		}
	}
}

// fixed is a cluster whose members cannot be changed now.
type fixed struct{ *cluster }

func (*fixed) Add(bool) (string, func() bool)               { return "", nil }
func (*fixed) Demote(string) (string, func() bool)          { return "", nil }
func (*fixed) Remove(string, float64) (string, func() bool) { return "", nil }

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
