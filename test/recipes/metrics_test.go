package recipes

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/client/recipes/metrics"
	"holdfast/test/whole"
	"holdfast/tree"
)

// count is what a registry has of a recipe: gauges by their name, histograms by name and label with how often, and the
// sum in seconds.
type count struct {
	value   float64
	samples uint64
}

func counts(t *testing.T, from prometheus.Gatherer, recipe string) map[string]count {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]count)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name, of := f.GetName(), ""
			for _, l := range m.GetLabel() {
				if l.GetName() == "recipe" {
					of = l.GetValue()
				} else {
					name += " " + l.GetValue()
				}
			}
			switch h := m.GetHistogram(); {
			case of != recipe:
			case h == nil:
				all[name] = count{value: m.GetGauge().GetValue()}
			default:
				all[name] = count{h.GetSampleSum(), h.GetSampleCount()}
			}
		}
	}
	return all
}

// grantor is a recipe whose grants have one holder at a time.
type grantor struct {
	recipe  string
	acquire func(ctx context.Context, s *client.Session, o recipes.Option) (release func(context.Context) error, err error)
}

func release[T any](grant T, err error, how func(T, context.Context) error) (func(context.Context) error, error) {
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return how(grant, ctx) }, nil
}

func grantors() []grantor {
	return []grantor{
		{"lock", func(ctx context.Context, s *client.Session, o recipes.Option) (func(context.Context) error, error) {
			g, err := recipes.NewLock(s, "/a", o).Lock(ctx)
			return release(g, err, (*recipes.Hold).Unlock)
		}},
		{"semaphore", func(ctx context.Context, s *client.Session, o recipes.Option) (func(context.Context) error, error) {
			g, err := recipes.NewSemaphore(s, "/a", 1, o).Acquire(ctx)
			return release(g, err, (*recipes.Permit).Release)
		}},
		{"election", func(ctx context.Context, s *client.Session, o recipes.Option) (func(context.Context) error, error) {
			g, err := recipes.NewElection(s, "/a", o).Campaign(ctx, nil)
			return release(g, err, (*recipes.Leadership).Resign)
		}},
		{"queue", func(ctx context.Context, s *client.Session, o recipes.Option) (func(context.Context) error, error) {
			g, err := recipes.NewQueue(s, "/a", o).Take(ctx)
			return release(g, err, (*recipes.Claim).Return)
		}},
	}
}

// TestWaitingAndHolding: for each recipe with grants, waiters and holders are counted while they last, and then with
// their duration and outcome.
func TestWaitingAndHolding(t *testing.T) {
	for _, g := range grantors() {
		t.Run(g.recipe, func(t *testing.T) {
			whole.Run(t, func(c *whole.Cluster) { waitAndHold(c, g) })
		})
	}
}

func waitAndHold(c *whole.Cluster, g grantor) {
	ctx := context.Background()
	m, registry := metrics.New(), prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	cl := c.Client("app")
	defer cl.Close()
	s := c.Session(cl, time.Minute)
	if g.recipe == "queue" {
		if err := recipes.NewQueue(s, "/a").Put(ctx, nil); err != nil {
			c.T.Fatal(err)
		}
	}
	first, err := g.acquire(ctx, s, recipes.WithObserver(m))
	if err != nil {
		c.T.Fatal(err)
	}
	next := make(chan func(context.Context) error)
	go func() {
		second, failed := g.acquire(ctx, s, recipes.WithObserver(m))
		if failed != nil {
			c.T.Error(failed)
		}
		next <- second
	}()
	time.Sleep(10 * time.Second)
	patience, cancel := context.WithTimeout(ctx, 5*time.Second)
	if _, err = g.acquire(patience, s, recipes.WithObserver(m)); !errors.Is(err, context.DeadlineExceeded) {
		c.T.Errorf("without patience: %v", err)
	}
	cancel()
	now := counts(c.T, registry, g.recipe)
	if now["holdfast_recipe_holding"].value != 1 || now["holdfast_recipe_waiting"].value != 1 {
		c.T.Errorf("one holds and one waits: %v", now)
	}
	if w := now["holdfast_recipe_wait_seconds given up"]; w.samples != 1 || w.value < 5 || w.value > 6 {
		c.T.Errorf("one gave up after 5 s: %v", now)
	}
	if err = first(ctx); err != nil {
		c.T.Fatal(err)
	}
	second := <-next
	time.Sleep(3 * time.Second)
	if err = s.Close(ctx); err != nil {
		c.T.Fatal(err)
	}
	time.Sleep(time.Second)
	now = counts(c.T, registry, g.recipe)
	if now["holdfast_recipe_holding"].value != 0 || now["holdfast_recipe_waiting"].value != 0 {
		c.T.Errorf("without holders and waiters: %v", now)
	}
	got := now["holdfast_recipe_wait_seconds granted"]
	if got.samples != 2 || got.value < 15 || got.value > 16 {
		c.T.Errorf("one waited for 15 s: %v", now)
	}
	if got = now["holdfast_recipe_hold_seconds released"]; got.samples != 1 || got.value < 15 || got.value > 16 {
		c.T.Errorf("the first held for 15 s: %v", now)
	}
	got = now["holdfast_recipe_hold_seconds session ended"]
	if got.samples != 1 || got.value < 3 || got.value > 4 {
		c.T.Errorf("the second held for 3 s until the end of its session: %v", now)
	}
	if err = second(ctx); err == nil {
		c.T.Error("a grant of a session that was closed is released")
	}
}

// TestOthersAreCounted: recipes that have no grants, and calls that do not wait.
func TestOthersAreCounted(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		m, registry := metrics.New(), prometheus.NewPedanticRegistry()
		registry.MustRegister(m)
		cl := c.Client("app")
		defer cl.Close()
		s := c.Session(cl, time.Minute)
		o := recipes.WithObserver(m)
		must := func(err error) {
			c.T.Helper()
			if err != nil {
				c.T.Fatal(err)
			}
		}
		must(recipes.NewBarrier(s, "/barrier", o).Wait(ctx))
		in, err := recipes.NewDoubleBarrier(s, "/double", 1, o).Enter(ctx)
		must(err)
		must(in.Leave(ctx))
		_, err = recipes.NewGroup(s.Tree(), "/group").Join(ctx, s, recipes.Member{ID: "a"}, o)
		must(err)
		_, _, err = recipes.NewOnce(s, "/once", o).Do(ctx, "a", func(context.Context, tree.Stamp) ([]byte, error) {
			return nil, nil
		})
		must(err)
		held, err := recipes.NewLock(s, "/lock", o).TryLock(ctx)
		must(err)
		if _, err = recipes.NewLock(s, "/lock", o).TryLock(ctx); !errors.Is(err, recipes.ErrBusy) {
			c.T.Errorf("a second try: %v", err)
		}
		_, err = s.Tree().Delete(ctx, held.Path())
		must(err)
		<-held.Done()
		time.Sleep(time.Second)
		for recipe, want := range map[string][]string{
			"barrier":        {"wait_seconds granted"},
			"double barrier": {"wait_seconds granted", "hold_seconds released"},
			"group":          {"wait_seconds granted"},
			"once":           {"wait_seconds granted", "hold_seconds released"},
			"lock":           {"wait_seconds granted", "wait_seconds busy", "hold_seconds removed"},
		} {
			now := counts(c.T, registry, recipe)
			for _, name := range want {
				if now["holdfast_recipe_"+name].samples != 1 {
					c.T.Errorf("%s, %s: %v", recipe, name, now)
				}
			}
			holding := 0.0
			if recipe == "group" {
				holding = 1
			}
			if now["holdfast_recipe_holding"].value != holding || now["holdfast_recipe_waiting"].value != 0 {
				c.T.Errorf("%s: %v", recipe, now)
			}
		}
	})
}
