package building

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client"
	"holdfast/node"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/sim/simnet"
)

// cluster is three whole nodes and their clients in a bubble.
type cluster struct {
	*simnet.Network
	t     *testing.T
	names []string
}

// built runs f with a cluster once all nodes are ready.
func built(t *testing.T, f func(b *cluster)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		b := &cluster{
			Network: simnet.New(func(string, string) time.Duration { return time.Millisecond }), t: t,
			names: []string{"n1", "n2", "n3"},
		}
		time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0))) // a bubble's clock starts in 2000
		dir := t.TempDir()
		ctx, stop := context.WithCancel(context.Background())
		var nodes sync.WaitGroup
		defer nodes.Wait()
		defer stop()
		var ready []<-chan struct{}
		for i, name := range b.names {
			cfg := config.Default()
			cfg.Node, cfg.DataDir = session.Node(i+1), filepath.Join(dir, name)
			for j, peer := range b.names {
				cfg.Peers = append(cfg.Peers, config.Peer{
					Node: session.Node(j + 1), Raft: peer + ":7401", Peer: peer + ":7402", Client: peer + ":7400",
				})
			}
			n, err := node.New(cfg, node.Options{Logger: hclog.NewNullLogger(), Network: b.Host(name), Version: "test"})
			if err != nil {
				t.Fatal(err)
			}
			nodes.Go(func() {
				if err := n.Run(ctx); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			ready = append(ready, n.Ready())
		}
		for _, r := range ready {
			<-r
		}
		f(b)
	})
}

// client returns a client on a host of its own. A test may kill the host.
func (b *cluster) client(name string) *client.Client {
	b.t.Helper()
	var endpoints []string
	for _, n := range b.names {
		endpoints = append(endpoints, n+":7400")
	}
	c, err := client.New(client.Config{Endpoints: endpoints, Dial: b.Host(name).Dial})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// candidate opens the session of a candidate.
func (b *cluster) candidate(c *client.Client) *client.Session {
	b.t.Helper()
	s, err := enter(context.Background(), c, "jobs")
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// apart cuts the nodes off from each other. heal connects them again.
func (b *cluster) apart() (heal func()) {
	each := func(do func(from, to string)) {
		for _, from := range b.names {
			for _, to := range b.names {
				if from != to {
					do(from, to)
				}
			}
		}
	}
	each(b.Cut)
	return func() { each(b.Heal) }
}

// turn is the time of one leader; it lasts until ctx ends.
type turn struct {
	who   string
	fence fence
	ctx   context.Context //nolint:containedctx // the test looks at its end
}

// TestCandidatesLeadOneAfterTheOther: candidates lead in the order of their opens, and never two at a time. The next
// leader is found soon after the end of the former leader's session. A late write of the former leader is refused,
// although its attachment is higher.
func TestCandidatesLeadOneAfterTheOther(t *testing.T) {
	built(t, func(b *cluster) {
		t := b.t
		turns := make(chan turn)
		var all sync.WaitGroup
		defer all.Wait()
		run := func(who string, c *client.Client, s *client.Session) {
			all.Go(func() {
				err := lead(context.Background(), c, s, "jobs", func(ctx context.Context, f fence) error {
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
		one, two, heir := b.client("one"), b.client("two"), b.client("heir")
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
		t := b.t
		c := b.client("one")
		defer c.Close()
		s := b.candidate(c)
		heal := b.apart()
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
		t := b.t
		c := b.client("one")
		defer c.Close()
		s := b.candidate(c)
		heal := b.apart()
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
