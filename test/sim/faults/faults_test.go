package faults

import (
	"context"
	"maps"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// cluster counts what is broken, and remembers what ever was.
type cluster struct {
	mu           sync.Mutex
	cuts         map[way]int
	paused, dead map[string]int
	ever         map[way]bool
	began, ended map[Kind]int
	killed       int
}

func newCluster() *cluster {
	return &cluster{
		cuts: make(map[way]int), paused: make(map[string]int), dead: make(map[string]int), ever: make(map[way]bool),
		began: make(map[Kind]int), ended: make(map[Kind]int),
	}
}

func (c *cluster) Nodes() []string   { return []string{"n1", "n2", "n3", "n4", "n5"} }
func (c *cluster) Clients() []string { return []string{"c1"} }
func (c *cluster) Leader() string    { return "n4" }

func (c *cluster) with(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *cluster) Cut(from, to string) {
	c.with(func() { c.cuts[way{from, to}]++; c.ever[way{from, to}] = true })
}
func (c *cluster) Heal(from, to string) { c.with(func() { c.cuts[way{from, to}]-- }) }
func (c *cluster) Pause(n string)       { c.with(func() { c.paused[n]++ }) }
func (c *cluster) Resume(n string)      { c.with(func() { c.paused[n]-- }) }
func (c *cluster) Start(n string)       { c.with(func() { c.dead[n]-- }) }

func (c *cluster) Kill(n string) (lived bool) {
	c.with(func() {
		if lived = c.dead[n] == 0; lived {
			c.dead[n]++
			c.killed++
		}
	})
	return lived
}

func (c *cluster) Began(k Kind, _ string) { c.with(func() { c.began[k]++ }) }
func (c *cluster) Ended(k Kind, _ string) { c.with(func() { c.ended[k]++ }) }

func TestPlanFollowsTheSeed(t *testing.T) {
	plan := func(seed uint64) []Fault { return Plan(rand.New(rand.NewPCG(seed, 0)), 5, 50, time.Minute) }
	if !reflect.DeepEqual(plan(1), plan(1)) {
		t.Error("one seed, two plans")
	}
	if reflect.DeepEqual(plan(1), plan(2)) {
		t.Error("two seeds, one plan")
	}
	calm, overlapping := 0, 0
	for _, f := range plan(1) {
		if f.After >= time.Minute {
			calm++
		}
		if f.Overlaps {
			overlapping++
		}
	}
	if calm < 5 || overlapping < 5 {
		t.Errorf("%d calm spells and %d overlaps of 50 faults, want some of both", calm, overlapping)
	}
}

// TestRunHealsAll runs long plans: every kind happens, and in the end nothing is broken, also when the run is cut short.
func TestRunHealsAll(t *testing.T) {
	for _, limit := range []time.Duration{24 * time.Hour, 3 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			Run(ctx, Plan(rand.New(rand.NewPCG(7, 7)), 5, 100, time.Minute), c, c)
			for w, n := range c.cuts {
				if n != 0 {
					t.Errorf("limit %v: %v has %d cuts left", limit, w, n)
				}
			}
			for n := range c.paused {
				if c.paused[n] != 0 {
					t.Errorf("limit %v: %s is left paused", limit, n)
				}
			}
			for n := range c.dead {
				if c.dead[n] != 0 {
					t.Errorf("limit %v: %s is left dead", limit, n)
				}
			}
			if !maps.Equal(c.began, c.ended) {
				t.Errorf("limit %v: began %v, ended %v", limit, c.began, c.ended)
			}
			if limit > time.Hour {
				for _, k := range Kinds() {
					if c.began[k] == 0 {
						t.Errorf("no %s in 100 faults", k)
					}
				}
			}
		})
	}
}

// TestInject shows which links each kind of cut takes.
func TestInject(t *testing.T) {
	tests := []struct {
		kind    Kind
		cut     []way
		not     []way
		howMany int
	}{
		{Isolate, []way{{"n1", "n5"}, {"n5", "n1"}, {"n1", "c1"}, {"c1", "n1"}}, []way{{"n2", "n3"}}, 10},
		{Split, []way{{"n1", "n3"}, {"n5", "n2"}}, []way{{"n1", "n2"}, {"n3", "n4"}, {"c1", "n1"}}, 12},
		{LeaderOff, []way{{"n4", "n1"}, {"n5", "n4"}}, []way{{"c1", "n4"}, {"n4", "c1"}, {"n1", "n2"}}, 8},
		{Deaf, []way{{"n2", "n1"}, {"n5", "n1"}}, []way{{"n1", "n2"}}, 4},
		{Mute, []way{{"n1", "n2"}, {"n1", "n5"}}, []way{{"n2", "n1"}}, 4},
		{OneWay, []way{{"n1", "n2"}}, []way{{"n2", "n1"}}, 1},
	}
	for _, tt := range tests {
		c := newCluster()
		_, undo := inject(Fault{Kind: tt.kind, Nodes: []int{0, 1, 2, 3, 4}}, c)
		for _, w := range tt.cut {
			if c.cuts[w] != 1 {
				t.Errorf("%s: %v is not cut", tt.kind, w)
			}
		}
		for _, w := range tt.not {
			if c.cuts[w] != 0 {
				t.Errorf("%s: %v is cut", tt.kind, w)
			}
		}
		if len(c.ever) != tt.howMany {
			t.Errorf("%s: %d links are cut, want %d", tt.kind, len(c.ever), tt.howMany)
		}
		undo()
		for w, n := range c.cuts {
			if n != 0 {
				t.Errorf("%s: %v is left cut", tt.kind, w)
			}
		}
	}
}
