package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/session"
	"holdfast/test/whole"
	"holdfast/tree"
)

// TestSemaphore: as many sessions hold a permit as there are permits, and all get one. A holder that dies frees its
// permit.
func TestSemaphore(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl, dying := c.Client("app"), c.Client("dying")
		defer cl.Close()
		defer dying.Close()
		s := c.Session(cl, 10*time.Second)
		for _, permits := range []int{0, recipes.MaxPermits + 1} {
			_, err := recipes.NewSemaphore(s, "/pool", permits).Acquire(ctx)
			if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != "permits" {
				c.T.Errorf("%d permits: %v", permits, err)
			}
		}
		if _, err := recipes.NewSemaphore(c.Session(dying, 5*time.Second), "/pool", 3).Acquire(ctx); err != nil {
			c.T.Fatal(err)
		}
		c.Kill("dying")
		var out, most atomic.Int32
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				err := recipes.NewSemaphore(s, "/pool", 3).Do(ctx, func(ctx context.Context, _ tree.Stamp) error {
					most.Store(max(most.Load(), out.Add(1)))
					defer out.Add(-1)
					time.Sleep(2 * time.Second)
					return ctx.Err()
				})
				if err != nil {
					c.T.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		if _, err := recipes.NewSemaphore(s, "/pool", 3).TryAcquire(ctx); !errors.Is(err, recipes.ErrBusy) {
			c.T.Errorf("a try while others wait: %v", err)
		}
		if n := most.Load(); n != 2 {
			c.T.Errorf("%d of 3 permits are out beside one of a dead holder", n)
		}
		all.Wait()
		if n := most.Load(); n != 3 {
			c.T.Errorf("%d permits were out", n)
		}
		before := c.Sum("holdfast_client_tree_writes_total")
		p, err := recipes.NewSemaphore(s, "/pool", 3).Acquire(ctx)
		if err != nil {
			c.T.Fatal(err)
		}
		if n := c.Sum("holdfast_client_tree_writes_total") - before; n != 2 {
			c.T.Errorf("a permit that is free costs %d writes, want its place and its exchange", n)
		}
		if err = p.Release(ctx); err != nil {
			c.T.Error(err)
		}
		wrong := new(recipes.SizeError)
		if _, err = recipes.NewSemaphore(s, "/pool", 4).Acquire(ctx); !errors.As(err, &wrong) {
			c.T.Errorf("another number of permits: %v", err)
		}
		p, err = recipes.NewSemaphore(s, "/pool", 3).TryAcquire(ctx)
		if err != nil {
			c.T.Fatal(err)
		}
		if err := p.Release(ctx); err != nil {
			c.T.Error(err)
		}
	})
}

// TestElection: candidates lead one after the other, and observers get each leader and each value.
func TestElection(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		cl, watching := c.Client("app"), c.Client("watching")
		defer cl.Close()
		defer watching.Close()
		observer := recipes.NewElection(c.Session(watching, 10*time.Second), "/elections/a")
		if _, err := observer.Leader(ctx); !errors.Is(err, recipes.ErrNoLeader) {
			c.T.Errorf("before any campaign: %v", err)
		}
		var received []string
		var observing sync.WaitGroup
		observing.Go(func() {
			for l, err := range observer.Observe(ctx) {
				if err != nil {
					break
				}
				received = append(received, string(l.Value))
			}
		})
		s := c.Session(cl, 10*time.Second)
		var last tree.Stamp
		for i := range 3 {
			l, err := recipes.NewElection(s, "/elections/a").Campaign(ctx, []byte(fmt.Sprint("leader ", i)))
			if err != nil {
				c.T.Fatal(err)
			}
			time.Sleep(time.Second)
			if err := l.Proclaim(ctx, []byte(fmt.Sprint("leader ", i, " is ready"))); err != nil {
				c.T.Error(err)
			}
			time.Sleep(time.Second)
			if now, err := observer.Leader(ctx); err != nil || now.Token != l.Token() || now.Session != s.ID() {
				c.T.Errorf("leader %+v, %v", now, err)
			}
			if l.Token() <= last {
				c.T.Errorf("token %v after %v", l.Token(), last)
			}
			last = l.Token()
			if err := l.Resign(ctx); err != nil {
				c.T.Error(err)
			}
			time.Sleep(time.Second)
			if err := l.Proclaim(ctx, nil); !errors.Is(err, recipes.ErrReleased) {
				c.T.Errorf("proclaim after the resignation: %v", err)
			}
		}
		cancel()
		observing.Wait()
		var want []string
		for i := range 3 {
			want = append(want, fmt.Sprint("leader ", i), fmt.Sprint("leader ", i, " is ready"))
		}
		if !slices.Equal(received, want) {
			c.T.Errorf("received %q", received)
		}
	})
}

// TestTryCampaign: TryCampaign leads if there is no leader, and leaves no candidate behind otherwise.
func TestTryCampaign(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl := c.Client("app")
		defer cl.Close()
		s := c.Session(cl, 10*time.Second)
		e := recipes.NewElection(s, "/elections/a")
		leader, err := e.TryCampaign(ctx, []byte("first"))
		if err != nil {
			c.T.Fatal(err)
		}
		if _, err = e.TryCampaign(ctx, []byte("second")); !errors.Is(err, recipes.ErrBusy) {
			c.T.Errorf("while somebody leads: %v", err)
		}
		if err = leader.Resign(ctx); err != nil {
			c.T.Error(err)
		}
		wantFree(c, s, "/elections/a")
	})
}

// TestObserverBesideAForeignEntry: an entry below the election that is no candidate's keeps no observer busy.
func TestObserverBesideAForeignEntry(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		cl := c.Client("app")
		defer cl.Close()
		s := c.Session(cl, 10*time.Second)
		for _, foreign := range []string{"before", "later"} { // in the order of candidates' names
			if _, err := s.Tree().Create(ctx, "/elections/a/"+foreign, nil, client.CreateOptions{Parents: true}); err != nil {
				c.T.Fatal(err)
			}
		}
		before := c.Sum("holdfast_client_tree_reads_total")
		e := recipes.NewElection(s, "/elections/a")
		time.AfterFunc(30*time.Second, func() {
			if _, err := e.Campaign(ctx, []byte("at last")); err != nil {
				c.T.Error(err)
			}
		})
		for leader, err := range e.Observe(ctx) {
			if err != nil || string(leader.Value) != "at last" {
				c.T.Errorf("%+v, %v", leader, err)
			}
			break
		}
		if n := c.Sum("holdfast_client_tree_reads_total") - before; n > 10 {
			c.T.Errorf("an observer without a leader has cost %d reads", n)
		}
	})
}

// TestBarrier: a raised barrier blocks all callers, and a lowered one none.
func TestBarrier(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl := c.Client("app")
		defer cl.Close()
		s := c.Session(cl, 10*time.Second)
		b := recipes.NewBarrier(s, "/barriers/a")
		if err := errors.Join(b.Wait(ctx), b.Raise(ctx), b.Raise(ctx)); err != nil {
			c.T.Fatal(err)
		}
		var passed atomic.Int32
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if err := b.Wait(ctx); err != nil {
					c.T.Error(err)
				}
				passed.Add(1)
			})
		}
		time.Sleep(time.Second)
		if n := passed.Load(); n > 0 {
			c.T.Errorf("%d passed a raised barrier", n)
		}
		if err := errors.Join(b.Lower(ctx), b.Lower(ctx)); err != nil {
			c.T.Error(err)
		}
		all.Wait()
	})
}

// TestCounter: each of many additions counts once, while nodes are cut off and come back.
func TestCounter(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		const clients, times = 6, 20
		var all sync.WaitGroup
		for i := range clients {
			cl := c.Client(fmt.Sprint("app", i))
			defer cl.Close()
			s := c.Session(cl, 30*time.Second)
			all.Go(func() {
				n := recipes.NewCounter(s, "/count")
				for range times {
					if _, err := n.Add(ctx, 2); err != nil {
						c.T.Error(err)
						return
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		for range 3 {
			time.Sleep(2 * time.Second)
			heal := c.Apart()
			time.Sleep(3 * time.Second)
			heal()
		}
		all.Wait()
		cl := c.Client("last")
		defer cl.Close()
		s := c.Session(cl, 30*time.Second)
		if n, err := recipes.NewCounter(s, "/count").Get(ctx, client.Linearizable()); err != nil || n != 2*clients*times {
			c.T.Errorf("counted %d, want %d: %v", n, 2*clients*times, err)
		}
		if _, err := recipes.NewCounter(s, "/count").Add(ctx, 1<<63-1); !errors.Is(err, recipes.ErrOverflow) {
			c.T.Errorf("an overflow: %v", err)
		}
		if _, err := s.Tree().Set(ctx, "/count", nil); err != nil {
			c.T.Fatal(err)
		}
		if n, err := recipes.NewCounter(s, "/count").Add(ctx, 1); err != nil || n != 1 {
			c.T.Errorf("an entry without data counted to %d: %v", n, err)
		}
		if _, err := s.Tree().Set(ctx, "/count", []byte("many")); err != nil {
			c.T.Fatal(err)
		}
		if _, err := recipes.NewCounter(s, "/count").Get(ctx); !errors.As(err, new(*recipes.NotNumberError)) {
			c.T.Errorf("no number: %v", err)
		}
	})
}

// TestCounterCreatedAgain: removing the number and counting from 0 again overtakes an addition, though the new number
// has the version of the old one.
func TestCounterCreatedAgain(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		other := c.Client("other")
		defer other.Close()
		between := c.Session(other, 30*time.Second)
		if _, err := recipes.NewCounter(between, "/count").Add(ctx, 5); err != nil {
			c.T.Fatal(err)
		}
		var once sync.Once
		cl, err := client.New(client.Config{
			Endpoints: []string{c.Names[0] + ":7400"}, Dial: c.Host("app").Dial,
			Trace: func(ctx context.Context) string { // of each write, which has not been sent yet
				if ctx.Value(counting{}) != nil {
					once.Do(func() {
						_, err := between.Tree().Delete(ctx, "/count")
						if err == nil {
							_, err = recipes.NewCounter(between, "/count").Add(ctx, 1)
						}
						if err != nil {
							c.T.Error("in between: ", err)
						}
					})
				}
				return ""
			},
		})
		if err != nil {
			c.T.Fatal(err)
		}
		defer cl.Close()
		n := recipes.NewCounter(c.Session(cl, 30*time.Second), "/count")
		if sum, err := n.Add(context.WithValue(ctx, counting{}, true), 2); err != nil || sum != 3 {
			c.T.Errorf("1 and 2 were counted since the number was created again, and the sum is %d: %v", sum, err)
		}
	})
}

// counting marks the calls of a counter.
type counting struct{}

// TestGroup: a view shows who is a member, by labels, and who has died no longer. An id is one member's.
func TestGroup(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl, dying := c.Client("app"), c.Client("dying")
		defer cl.Close()
		defer dying.Close()
		s := c.Session(cl, 10*time.Second)
		g := recipes.NewGroup(cl.Tree(), "/services/web")
		v, err := g.View(ctx)
		if err != nil {
			c.T.Fatal(err)
		}
		defer v.Close()
		one, err := g.Join(ctx, s, recipes.Member{ID: "one", Address: "10.0.0.1:80", Labels: map[string]string{"zone": "a"}})
		if err != nil {
			c.T.Fatal(err)
		}
		other := c.Session(dying, 5*time.Second)
		if _, err = g.Join(ctx, other, recipes.Member{ID: "one"}); !errors.As(err, new(*recipes.MemberExistsError)) {
			c.T.Errorf("a second member with the id: %v", err)
		}
		two := recipes.Member{ID: "two", Labels: map[string]string{"zone": "b"}, Health: recipes.Warning}
		if _, err = g.Join(ctx, other, two); err != nil {
			c.T.Fatal(err)
		}
		until(c, v, "[one 10.0.0.1:80 passing] [two  warning]")
		if in := v.Members(map[string]string{"zone": "b"}); len(in) != 1 || in[0].Session != other.ID() {
			c.T.Errorf("in zone b: %+v", in)
		}
		if err = one.Set(ctx, recipes.Member{Address: "10.0.0.1:81", Health: recipes.Critical}); err != nil {
			c.T.Error(err)
		}
		until(c, v, "[one 10.0.0.1:81 critical] [two  warning]")
		c.Kill("dying")
		until(c, v, "[one 10.0.0.1:81 critical]")
		if err = one.Leave(ctx); err != nil {
			c.T.Error(err)
		}
		until(c, v, "")
		if err = one.Set(ctx, recipes.Member{}); !errors.Is(err, recipes.ErrReleased) {
			c.T.Errorf("set after leaving: %v", err)
		}
	})
}

// until waits until a view shows the wanted members.
func until(c *whole.Cluster, v *recipes.View, want string) {
	c.T.Helper()
	late := time.After(time.Minute)
	for {
		changed, shown := v.Changes(), ""
		for i, m := range v.Members(nil) {
			if i > 0 {
				shown += " "
			}
			shown += fmt.Sprintf("[%s %s %s]", m.ID, m.Address, m.Health)
		}
		if shown == want {
			return
		}
		select {
		case <-changed:
		case <-late:
			c.T.Fatalf("the view shows %q, want %q", shown, want)
		}
	}
}
