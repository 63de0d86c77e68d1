package faults

import (
	"context"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/test/bubble"
)

// cluster is a Cluster that counts what is broken, and remembers everything that ever was.
type cluster struct {
	mu             sync.Mutex
	cuts           map[way]int
	slow           map[way]slowness
	paused, broken map[string]int
	dead           map[string]bool
	ever           map[way]bool
	began, ended   map[Kind]int
	hit            map[Kind]int
	did            map[string]int
	texts          []string
}

func newCluster() *cluster {
	return &cluster{
		cuts: make(map[way]int), slow: make(map[way]slowness), paused: make(map[string]int),
		broken: make(map[string]int),
		dead:   make(map[string]bool), ever: make(map[way]bool), began: make(map[Kind]int), ended: make(map[Kind]int),
		hit: make(map[Kind]int), did: make(map[string]int),
	}
}

func (c *cluster) Nodes() []string   { return []string{"n1", "n2", "n3", "n4", "n5"} }
func (c *cluster) Clients() []string { return []string{"c1", "c2"} }
func (c *cluster) Callers() []string { return []string{"c1", "c2", "r1"} }
func (c *cluster) Leader() string    { return "n4" }

func (c *cluster) with(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *cluster) count(what string) { c.with(func() { c.did[what]++ }) }

func (c *cluster) Cut(from, to string) {
	c.with(func() { c.cuts[way{from, to}]++; c.ever[way{from, to}] = true })
}
func (c *cluster) Heal(from, to string) { c.with(func() { c.cuts[way{from, to}]-- }) }
func (c *cluster) Pause(n string)       { c.with(func() { c.paused[n]++ }) }
func (c *cluster) Resume(n string)      { c.with(func() { c.paused[n]-- }) }
func (c *cluster) Choke(a string)       { c.with(func() { c.paused["choked "+a]++; c.did["choke "+a]++ }) }
func (c *cluster) Unchoke(a string)     { c.with(func() { c.paused["choked "+a]-- }) }
func (c *cluster) Stick(n string)       { c.with(func() { c.paused["stuck "+n]++ }) }
func (c *cluster) Unstick(n string)     { c.with(func() { c.paused["stuck "+n]-- }) }

// Held grows with every call: every broken link was hit.
func (c *cluster) Held(string, string) (n int) {
	c.with(func() { c.did["observe"]++; n = c.did["observe"] })
	return n
}

func (c *cluster) Slow(from, to string, more, scatter time.Duration) {
	c.with(func() {
		s := c.slow[way{from, to}]
		c.slow[way{from, to}] = slowness{s.more + more, s.scatter + scatter}
		c.ever[way{from, to}] = true
	})
}

func (c *cluster) Refuse(from, to string) {
	c.with(func() { c.cuts[way{"refused " + from, to}]++; c.did["refuse"]++ })
}
func (c *cluster) Admit(from, to string) { c.with(func() { c.cuts[way{"refused " + from, to}]-- }) }

func (c *cluster) Reset(string, string) int { c.count("reset"); return 1 }

func (c *cluster) Start(n string) { c.with(func() { c.dead[n] = false }) }
func (c *cluster) Stop(n string) bool {
	c.count("stop")
	return c.Kill(n)
}

func (c *cluster) Suspend(n string) func() bool {
	c.with(func() { c.paused["process of "+n]++; c.did["suspend"]++ })
	return func() bool { c.with(func() { c.paused["process of "+n]-- }); return true }
}

func (c *cluster) Kill(n string) (lived bool) {
	c.with(func() { lived = !c.dead[n]; c.dead[n] = true })
	return lived
}
func (c *cluster) HandOver(string) bool { c.count("hand over"); return true }

func (c *cluster) Break(n string, d Damage, _ time.Duration) func() bool {
	c.with(func() { c.broken[n]++; c.did[[]string{"", "slow", "full", "failing", "hung"}[d]]++ })
	return func() bool { c.with(func() { c.broken[n]-- }); return true }
}

func (c *cluster) Tear(n string) func() bool {
	c.count("tear")
	return func() bool { c.Kill(n); return true }
}
func (c *cluster) Age(string) bool { c.count("age"); return true }
func (c *cluster) Empty(string) bool {
	c.count("empty")
	return true
}

func (c *cluster) SetClock(n string, forward time.Duration) func() bool {
	c.with(func() {
		c.broken["clock of "+n]++
		c.did["clock "+map[bool]string{true: "back", false: "forward"}[forward < 0]]++
	})
	return func() bool { c.with(func() { c.broken["clock of "+n]-- }); return true }
}

func (c *cluster) Dawdle(n string, _ time.Duration) func() bool {
	c.with(func() { c.broken["applying of "+n]++; c.did["dawdle"]++ })
	return func() bool { c.with(func() { c.broken["applying of "+n]-- }); return true }
}

func (c *cluster) Cross(n string, _ time.Duration) func() bool {
	c.with(func() { c.broken["streams of "+n]++; c.did["cross"]++ })
	return func() bool { c.with(func() { c.broken["streams of "+n]-- }); return true }
}

func (c *cluster) Flood(context.Context, int) int { c.count("flood"); return 1 }
func (c *cluster) Double(context.Context) int     { c.count("double"); return 1 }

func (c *cluster) Nears() { c.count("near") }

func (c *cluster) Began(k Kind, _, text string) {
	c.with(func() {
		c.began[k]++
		c.texts = append(c.texts, text)
	})
}

func (c *cluster) Ended(k Kind, _, _ string, hit bool) { //nolint:revive // flag-parameter: it is counted
	c.with(func() {
		c.ended[k]++
		if hit {
			c.hit[k]++
		}
	})
}

func shape(count int) Shape { return Shape{Nodes: 5, Count: count, Calm: time.Minute} }

func TestPlanFollowsTheSeed(t *testing.T) {
	plan := func(seed uint64) []Fault { return Plan(rand.New(rand.NewPCG(seed, 0)), shape(50)) }
	if !reflect.DeepEqual(plan(1), plan(1)) {
		t.Error("one seed gives two plans")
	}
	if reflect.DeepEqual(plan(1), plan(2)) {
		t.Error("two seeds give one plan")
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
		t.Errorf("50 faults have %d calm spells and %d overlaps, want some of both", calm, overlapping)
	}
}

// TestEveryKindIsDealt shows that plans with following numbers have every kind, however few faults each plan has, and
// in more than one order.
func TestEveryKindIsDealt(t *testing.T) {
	kinds := len(planned())
	const count = 6
	for first := range uint64(20) {
		dealt := make(map[Kind]int)
		for n := range uint64(2*kinds/count + 1) {
			s := shape(count)
			s.Deal = first + n
			for _, f := range Plan(rand.New(rand.NewPCG(n, 0)), s) {
				dealt[f.Kind]++
			}
		}
		if len(dealt) != kinds {
			t.Errorf("plans from number %d on have %d of %d kinds, want all", first, len(dealt), kinds)
		}
	}
	if reflect.DeepEqual(deal(planned(), Shape{Count: kinds}), deal(planned(), Shape{Count: kinds, Deal: 1})) {
		t.Error("two deals have the same order")
	}
}

// TestLinks shows that a plan of links has every kind once, in pairs on the links of one caller, to some nodes or to
// all.
func TestLinks(t *testing.T) {
	one := func(seed uint64) []Fault { return Links(rand.New(rand.NewPCG(seed, 0)), 5) }
	if !reflect.DeepEqual(one(1), one(1)) || reflect.DeepEqual(one(1), one(2)) {
		t.Error("plans do not depend on the seed alone")
	}
	some, all, met := 0, 0, make(map[[2]Kind]bool)
	for seed := range uint64(300) {
		plan, dealt := one(seed), make(map[Kind]bool)
		for i, f := range plan {
			dealt[f.Kind] = true
			switch {
			case len(f.Nodes) == 5:
				all++
			case len(f.Nodes) > 0:
				some++
			default:
				t.Errorf("fault %s is not one of links", f)
			}
			if second := i%2 == 1; f.Overlaps != second || second != (i > 0 && f.Caller == plan[i-1].Caller) {
				t.Errorf("seed %d: fault %d is in no pair: %s", seed, i+1, f)
			} else if second {
				met[[2]Kind{plan[i-1].Kind, f.Kind}] = true
			}
		}
		if len(dealt) != len(links()) {
			t.Errorf("seed %d: %d of %d kinds, want all", seed, len(dealt), len(links()))
		}
	}
	if pairs := len(links()) * (len(links()) - 1); some < 300 || all < 300 || len(met) != pairs {
		t.Errorf("of 1800 faults %d are of some nodes and %d of all, and %d of %d pairs met: want plenty of each", some,
			all, len(met), pairs)
	}
}

// TestRunNumbersThroughAllPlans shows that the number of a fault in printed plans is its number in the history.
func TestRunNumbersThroughAllPlans(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCluster()
		Run(t.Context(), c, c, []Fault{{Kind: MuteClient}, {Kind: DeafClient}}, nil, []Fault{{Kind: LagToClient}})
		for _, want := range []string{
			"1: make c1 mute to ", "2: make c1 deaf to ", "3: delay messages to c1 from  by 0s",
		} {
			if !slices.Contains(c.texts, want) {
				t.Errorf("%q is missing in %q", want, c.texts)
			}
		}
	})
}

// TestRunHealsAll runs long plans. Every kind happens, and in the end nothing is broken, also when the run is cut
// short.
func TestRunHealsAll(t *testing.T) {
	for _, limit := range []time.Duration{24 * time.Hour, 3 * time.Minute} {
		bubble.Test(t, func(t *testing.T) {
			c := newCluster()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			ends, acts := Acts(rand.New(rand.NewPCG(7, 7)), 5)
			acts = append(ends, acts...)
			Run(ctx, c, c, Plan(rand.New(rand.NewPCG(7, 7)), shape(300)), Links(rand.New(rand.NewPCG(7, 7)), 5),
				Stutter(rand.New(rand.NewPCG(7, 7)), 5), Successions(rand.New(rand.NewPCG(7, 7)), 5),
				Lags(rand.New(rand.NewPCG(7, 7)), 5), Crossings(rand.New(rand.NewPCG(7, 7)), 5),
				Orders(rand.New(rand.NewPCG(7, 7)), 5), acts,
				Changes(rand.New(rand.NewPCG(7, 7)), 5))
			for what, left := range map[string]bool{
				"cuts": positive(c.cuts), "pauses": positive(c.paused), "broken disks or clocks": positive(c.broken),
			} {
				if left {
					t.Errorf("limit %v: %s are left: %v %v %v", limit, what, c.cuts, c.paused, c.broken)
				}
			}
			for w, s := range c.slow {
				if s != (slowness{}) {
					t.Errorf("limit %v: %v is left slow: %v", limit, w, s)
				}
			}
			for n, dead := range c.dead {
				if dead {
					t.Errorf("limit %v: %s is left dead", limit, n)
				}
			}
			if !maps.Equal(c.began, c.ended) {
				t.Errorf("limit %v: began %v, ended %v", limit, c.began, c.ended)
			}
			if limit > time.Hour {
				c.complete(t)
			}
		})
	}
}

func positive[K comparable](counts map[K]int) bool {
	for _, n := range counts {
		if n != 0 {
			return true
		}
	}
	return false
}

// complete checks that every kind was injected, hit something, and reached the cluster.
func (c *cluster) complete(t *testing.T) {
	t.Helper()
	for _, k := range Kinds() {
		if c.hit[k] == 0 {
			t.Errorf("%s hit nothing in 300 faults", k)
		}
	}
	for _, what := range []string{
		"choke n4:7402", "reset", "stop", "hand over", "slow", "full", "failing", "hung", "tear", "age", "empty",
		"clock back", "clock forward", "flood", "double", "suspend", "refuse", "dawdle", "cross", "near",
		"end sessions", "extend", "add", "demote", "remove", "transfer",
	} {
		if c.did[what] == 0 {
			t.Errorf("the cluster was never asked for %s", what)
		}
	}
}

// TestBegin shows which links each kind of cut takes.
func TestBegin(t *testing.T) {
	tests := []struct {
		kind    Kind
		cut     []way
		not     []way
		howMany int
	}{
		{Isolate, []way{{"n1", "n5"}, {"n5", "n1"}, {"n1", "c1"}, {"c1", "n1"}}, []way{{"n2", "n3"}}, 12},
		{Split, []way{{"n1", "n3"}, {"n5", "n2"}}, []way{{"n1", "n2"}, {"n3", "n4"}, {"c1", "n1"}}, 12},
		{Partial, []way{{"n1", "n2"}, {"n2", "n1"}}, []way{{"n1", "n3"}, {"n3", "n2"}}, 2},
		{LeaderOff, []way{{"n4", "n1"}, {"n5", "n4"}}, []way{{"c1", "n4"}, {"n4", "c1"}, {"n1", "n2"}}, 8},
		{Deaf, []way{{"n2", "n1"}, {"n5", "n1"}}, []way{{"n1", "n2"}}, 4},
		{Mute, []way{{"n1", "n2"}, {"n1", "n5"}}, []way{{"n2", "n1"}}, 4},
		{OneWay, []way{{"n1", "n2"}}, []way{{"n2", "n1"}}, 1},
	}
	for _, tt := range tests {
		c := newCluster()
		b := begin(t.Context(), Fault{Kind: tt.kind, Nodes: []int{0, 1, 2, 3, 4}}, c)
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
		if !b.end() || positive(c.cuts) {
			t.Errorf("%s: cuts are left, or hit nothing: %v", tt.kind, c.cuts)
		}
	}
}

// TestBeginLinks shows which links each kind makes worse, and by how much, and that the other direction stays as it
// was.
func TestBeginLinks(t *testing.T) {
	there, back := []way{{"r1", "n2"}, {"r1", "n5"}}, []way{{"n2", "r1"}, {"n5", "r1"}}
	tests := []struct {
		kind Kind
		ways []way
		cut  int
		slow slowness
	}{
		{LagFromClient, there, 0, slowness{more: time.Second}},
		{LagToClient, back, 0, slowness{more: time.Second}},
		{ReorderFromClient, there, 0, slowness{scatter: 355 * time.Millisecond}},
		{ReorderToClient, back, 0, slowness{scatter: 355 * time.Millisecond}},
		{MuteClient, there, 1, slowness{}},
		{DeafClient, back, 1, slowness{}},
	}
	for _, tt := range tests {
		c := newCluster()
		b := begin(t.Context(), Fault{Kind: tt.kind, Nodes: []int{1, 4}, Size: 0.5, Caller: 0.9}, c)
		for _, w := range tt.ways {
			if c.cuts[w] != tt.cut || c.slow[w] != tt.slow {
				t.Errorf("%s: %v has %d cuts and is slow by %v, want %d and %v", tt.kind, w, c.cuts[w], c.slow[w],
					tt.cut, tt.slow)
			}
		}
		if len(c.ever) != len(tt.ways) || b.who != "r1" {
			t.Errorf("%s of %q: links %v, want those of r1: %v", tt.kind, b.who, c.ever, tt.ways)
		}
		if !b.end() || positive(c.cuts) || c.slow[tt.ways[0]] != (slowness{}) {
			t.Errorf("%s: cuts %v or delays %v are left, or hit nothing", tt.kind, c.cuts, c.slow)
		}
	}
}

func TestJumpGoesBothWaysByYears(t *testing.T) {
	const year = 365 * 24 * time.Hour
	if far, back := jump(0.499), jump(0.999); far < 10*year || back > -10*year {
		t.Errorf("jumps of %v and %v, want years forward and back", far, back)
	}
	if near, back := jump(0), jump(0.5); near <= 0 || near > time.Minute || back >= 0 || back < -time.Minute {
		t.Errorf("jumps of %v and %v, want seconds forward and back", near, back)
	}
}
