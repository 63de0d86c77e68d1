package building

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/fence"
	"holdfast/session"
	"holdfast/test/whole"
)

// cluster is three whole nodes and their clients in a bubble.
type cluster struct{ *whole.Cluster }

// built runs f with a cluster once all nodes are ready.
func built(t *testing.T, f func(b *cluster)) {
	t.Helper()
	whole.Run(t, func(c *whole.Cluster) { f(&cluster{c}) })
}

// turn is the time of one leader; it lasts until ctx ends.
type turn struct {
	who   string
	token fence.Token
	ctx   context.Context //nolint:containedctx // the test looks at its end
}

// TestLeadersFollowEachOther: candidates lead in the order in which they came, and never two at a time. The next one
// leads when the session of a dead leader has expired, with a higher token. A late write of the former leader is
// refused.
func TestLeadersFollowEachOther(t *testing.T) {
	built(t, func(b *cluster) {
		t := b.T
		turns := make(chan turn)
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		defer all.Wait()
		defer stop()
		campaign := func(who string) *client.Client {
			c := b.Client(who)
			s := b.Session(c, 10*time.Second)
			all.Go(func() {
				err := lead(ctx, s, who, func(safe context.Context, token fence.Token) error {
					turns <- turn{who, token, safe}
					select {
					case <-safe.Done():
						return safe.Err()
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				if !errors.Is(err, session.ErrExpired) && !errors.Is(err, context.Canceled) {
					t.Errorf("%s ended with %v", who, err)
				}
			})
			return c
		}
		one := campaign("one")
		defer one.Close()
		led := <-turns
		two := campaign("two")
		defer two.Close()
		watcher := b.Client("watcher")
		defer watcher.Close()
		ended := make(chan session.Certificate, 8)
		all.Go(func() {
			if err := ends(ctx, watcher, func(c session.Certificate) { ended <- c }); !errors.Is(err, context.Canceled) {
				t.Errorf("the watch of ends has ended with %v", err)
			}
		})
		time.Sleep(time.Second) // the watch is in place
		d := &device{guard: fence.NewGuard(1)}
		if err := d.set(ctx, "jobs", led.token, "one"); led.who != "one" || err != nil {
			t.Errorf("%s leads, want one; %v", led.who, err)
		}

		killed := time.Now()
		b.Kill("one")
		next := <-turns
		if led.ctx.Err() == nil {
			t.Error("two lead at a time")
		}
		// The timeout T, T/200 and the expiry interval X. A round and a commit take milliseconds here.
		if took, most := time.Since(killed), 10*time.Second+50*time.Millisecond+250*time.Millisecond+
			100*time.Millisecond; took > most {
			t.Errorf("the next one leads after %v, want %v at most", took, most)
		}
		if c := <-ended; c.Cause != session.CauseExpired {
			t.Errorf("told of the end %v, want an expiry", c)
		}
		if next.who != "two" || next.token <= led.token {
			t.Fatalf("%s leads with %v after %v", next.who, next.token, led.token)
		}
		if err := d.set(ctx, "jobs", next.token, "two"); err != nil {
			t.Error(err)
		}
		if err := d.set(ctx, "jobs", led.token, "late"); err == nil || d.value != "two" {
			t.Errorf("a write of the former leader: %v, value %q", err, d.value)
		}
		stop()
		all.Wait() // before the clients close
	})
}

// TestChangesUnderALock: two change a device under a lock, one after the other.
func TestChangesUnderALock(t *testing.T) {
	built(t, func(b *cluster) {
		d := &device{guard: fence.NewGuard(1)}
		for _, who := range []string{"one", "two"} {
			c := b.Client(who)
			defer c.Close()
			s := b.Session(c, 10*time.Second)
			if err := change(context.Background(), s, d, who); err != nil || d.value != who {
				b.T.Errorf("%s: %v, value %q", who, err, d.value)
			}
		}
	})
}

// TestInstancesComeAndGo: those who want to know see an instance come, and go when it is dead.
func TestInstancesComeAndGo(t *testing.T) {
	built(t, func(b *cluster) {
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		defer all.Wait()
		defer stop()
		watcher := b.Client("watcher")
		defer watcher.Close()
		b.Session(watcher, time.Minute)
		shown := make(chan []string, 64)
		all.Go(func() {
			if err := instances(ctx, watcher, func(all []string) { shown <- all }); !errors.Is(err, context.Canceled) {
				b.T.Errorf("the view has ended with %v", err)
			}
		})
		await := func(want ...string) {
			for got := range shown {
				if slices.Equal(got, want) {
					return
				}
			}
		}
		await()
		for _, who := range []string{"10.0.0.1:80", "10.0.0.2:80"} {
			c := b.Client(who)
			defer c.Close()
			all.Go(func() {
				if err := register(ctx, c, who); !errors.Is(err, context.Canceled) {
					b.T.Errorf("%s: the registration has ended with %v", who, err)
				}
			})
		}
		await("10.0.0.1:80", "10.0.0.2:80")
		b.Kill("10.0.0.1:80")
		await("10.0.0.2:80")
		stop()
		all.Wait() // before the clients close
	})
}

// TestWorkStopsWithoutAPromise: work stops when the promise runs out, and starts again with the next promise. A cluster
// without a quorum ends no session (I8 a sick server kills nobody).
func TestWorkStopsWithoutAPromise(t *testing.T) {
	built(t, func(b *cluster) {
		t := b.T
		c := b.Client("one")
		defer c.Close()
		s := b.Session(c, 10*time.Second)
		heal := b.Apart()
		var told []string
		began := time.Now()
		err := whileSafe(context.Background(), s, s, func(ctx context.Context) error {
			if told = append(told, fmt.Sprint("from ", time.Since(began) > 10*time.Second)); len(told) > 1 {
				return nil
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), client.ErrLapsed) {
				t.Errorf("cause is %v", context.Cause(ctx))
			}
			time.AfterFunc(time.Minute, heal)
			return ctx.Err()
		})
		if err != nil || len(told) != 2 || told[0] != "from false" || told[1] != "from true" {
			t.Errorf("worked %v, %v", told, err)
		}
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestWorkThatIsDoneIsNotRepeated: work that succeeds just as the promise runs out does not run again.
func TestWorkThatIsDoneIsNotRepeated(t *testing.T) {
	built(t, func(b *cluster) {
		t := b.T
		c := b.Client("one")
		defer c.Close()
		s := b.Session(c, 10*time.Second)
		heal := b.Apart()
		worked := 0
		err := whileSafe(context.Background(), s, s, func(ctx context.Context) error {
			if worked++; worked > 1 {
				return nil
			}
			<-ctx.Done()
			time.AfterFunc(time.Minute, heal) // another promise comes
			return nil
		})
		if err != nil || worked != 1 {
			t.Errorf("worked %d times, %v", worked, err)
		}
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
