package building

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"holdfast/client"
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

// candidate opens the session of a candidate.
func (b *cluster) candidate(c *client.Client) *client.Session {
	b.T.Helper()
	s, err := enter(context.Background(), c, "jobs")
	if err != nil {
		b.T.Fatal(err)
	}
	return s
}

// turn is the time of one leader; it lasts until ctx ends.
type turn struct {
	who   string
	fence electionFence
	ctx   context.Context //nolint:containedctx // the test looks at its end
}

// TestCandidatesLeadOneAfterTheOther: candidates lead in the order of their opens, and never two at a time. The next
// leader is found soon after the end of the former leader's session. A late write of the former leader is refused,
// although its attachment is higher.
func TestCandidatesLeadOneAfterTheOther(t *testing.T) {
	built(t, func(b *cluster) {
		t := b.T
		turns := make(chan turn)
		var all sync.WaitGroup
		defer all.Wait()
		run := func(who string, c *client.Client, s *client.Session) {
			all.Go(func() {
				err := lead(context.Background(), c, s, "jobs", func(ctx context.Context, f electionFence) error {
					turns <- turn{who, f, ctx}
					<-ctx.Done()
					return ctx.Err()
				})
				if !errors.Is(err, session.ErrExpired) && !errors.Is(err, session.ErrClosed) &&
					!errors.Is(err, session.ErrMoved) {
					t.Errorf("%s ended with %v", who, err)
				}
			})
		}
		one, two, heir := b.Client("one"), b.Client("two"), b.Client("heir")
		defer one.Close()
		defer two.Close()
		defer heir.Close()
		first, second := b.candidate(one), b.candidate(two)
		run("two", two, second)
		run("one", one, first)
		led := <-turns
		if led.who != "one" {
			t.Fatalf("%s leads, want one", led.who)
		}

		taken, err := heir.Resume(context.Background(), first.Token())
		if err != nil {
			t.Fatal(err)
		}
		<-led.ctx.Done()
		run("heir", heir, taken)
		inherited := <-turns
		if inherited.who != "heir" || inherited.fence.compare(led.fence) <= 0 {
			t.Fatalf("%s leads with %v after %v", inherited.who, inherited.fence, led.fence)
		}

		killed := time.Now()
		b.Kill("heir")
		next := <-turns
		if inherited.ctx.Err() == nil {
			t.Error("two lead at a time")
		}
		// The timeout T, T/200, the expiry interval X, and a second between two reads. A round and a commit take
		// milliseconds here.
		if took, most := time.Since(killed), 10*time.Second+50*time.Millisecond+250*time.Millisecond+time.Second+
			100*time.Millisecond; took > most {
			t.Errorf("the next leader was found after %v, want %v at most", took, most)
		}
		if next.who != "two" || next.fence.attachment >= inherited.fence.attachment {
			t.Fatalf("%s leads with %v after %v: the test needs a lower attachment", next.who, next.fence,
				inherited.fence)
		}
		var r resource
		if err := errors.Join(r.set(led.fence, "one"), r.set(inherited.fence, "heir"),
			r.set(next.fence, "two")); err != nil {
			t.Error(err)
		}
		if err := r.set(inherited.fence, "late"); err == nil || r.value != "two" {
			t.Errorf("a write of the former leader: %v, value %q", err, r.value)
		}
		if err := second.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestWorkStopsWithoutAPromise: work stops when the promise runs out, and starts again with the next promise. A cluster
// without a quorum ends no session (I8).
func TestWorkStopsWithoutAPromise(t *testing.T) {
	built(t, func(b *cluster) {
		t := b.T
		c := b.Client("one")
		defer c.Close()
		s := b.candidate(c)
		heal := b.Apart()
		var told []string
		began := time.Now()
		err := whileSafe(s, func(ctx context.Context) error {
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
		s := b.candidate(c)
		heal := b.Apart()
		worked := 0
		err := whileSafe(s, func(ctx context.Context) error {
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
