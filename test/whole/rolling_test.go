package whole_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// A rolling restart of 3 and of 5 nodes, the leader last: sessions over many clients, locks held and watches open. No
// session expires or loses its promise, no lock changes hands, and no event is lost.
func TestRollingRestart(t *testing.T) {
	for _, size := range []int{3, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f := simulated(t, size)
				defer f.end()
				newCrowd(f, 300, 15).rolled()
			})
		})
	}
}

// The same on loopback and on the wall clock, with as many sessions as HOLDFAST_ROLLING_SESSIONS says: the figures of
// docs/benchmarks.md.
func TestRollingRestartOnLoopback(t *testing.T) {
	sessions, err := strconv.Atoi(os.Getenv("HOLDFAST_ROLLING_SESSIONS"))
	if err != nil {
		t.Skip("takes the wall clock: HOLDFAST_ROLLING_SESSIONS=5000 runs it")
	}
	for _, size := range []int{3, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			f := onLoopback(t, size)
			f.begin()
			defer f.end()
			newCrowd(f, sessions, 50).rolled()
		})
	}
}

// crowd are clients with sessions, of which every 20th holds a lock and every 10th watches.
type crowd struct {
	*fleet
	clients  []*client.Client
	sessions []*client.Session
	holds    []*recipes.Hold
	watchers sync.WaitGroup
	quit     context.CancelFunc
	// received counts the events that each watch received.
	mu       sync.Mutex
	received []int // guarded by mu
}

const rolledPath = "/rolled"

func newCrowd(f *fleet, sessions, clients int) *crowd {
	ctx, quit := context.WithCancel(context.Background())
	c := &crowd{fleet: f, quit: quit}
	for i := range clients {
		cfg := client.Config{Endpoints: f.endpoints()}
		if f.net != nil {
			cfg.Dial = f.net.Host(fmt.Sprintf("c%d", i)).Dial
		}
		cl, err := client.New(cfg)
		if err != nil {
			f.t.Fatal(err)
		}
		c.clients = append(c.clients, cl)
	}
	for i := range sessions {
		s, err := c.clients[i%clients].Open(ctx, client.SessionOptions{Timeout: 10 * time.Second})
		if err != nil {
			f.t.Fatal(err)
		}
		c.sessions = append(c.sessions, s)
	}
	if _, err := c.sessions[0].Tree().Create(ctx, rolledPath, nil, client.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	for i, s := range c.sessions {
		if i%20 == 0 {
			hold, err := recipes.NewLock(s, fmt.Sprintf("/lock-%d", i)).TryLock(ctx)
			if err != nil {
				f.t.Fatal(err)
			}
			c.holds = append(c.holds, hold)
		}
		if i%10 == 0 {
			c.watch(ctx, s)
		}
	}
	return c
}

// watch counts the children of a path that a watch reports, from now on.
func (c *crowd) watch(ctx context.Context, s *client.Session) {
	c.mu.Lock()
	at := len(c.received)
	c.received = append(c.received, 0)
	c.mu.Unlock()
	set := make(chan struct{})
	c.watchers.Go(func() {
		first := true
		for e, err := range s.Tree().Watch(ctx, rolledPath, tree.WatchRecursive) {
			if err != nil {
				if ctx.Err() == nil {
					c.t.Errorf("watch %d ended: %v", at, err)
				}
				break
			}
			if first {
				close(set)
				first = false
				continue
			}
			if e.Lost {
				c.t.Errorf("watch %d: events are lost", at)
			}
			c.mu.Lock()
			c.received[at]++
			c.mu.Unlock()
		}
	})
	<-set
}

// rolled restarts all nodes, the leader last, and checks the crowd.
func (c *crowd) rolled() {
	watched := c.watched()
	wrote := c.writes()
	last := c.leader()
	var longest time.Duration
	for i := range c.nodes {
		if i != last {
			longest = max(longest, c.restart(i))
		}
	}
	longest = max(longest, c.restart(last))
	created := wrote()
	gap, least := watched()
	c.t.Logf("%d nodes, %d sessions: the longest stop took %v; the longest time without a promise was %v, the least "+
		"that was left of one %v; %d watches received %d events each", len(c.nodes), len(c.sessions), longest, gap, least,
		len(c.received), created)
	if gap > 0 {
		c.t.Errorf("a session was without a promise for %v", gap)
	}
	if longest >= 10*time.Second {
		c.t.Errorf("a stop took %v: its node waited for clients that did not go", longest)
	}
	for i, s := range c.sessions {
		if err := s.Err(); err != nil {
			c.t.Errorf("session %d: %v", i, err)
		}
	}
	for i, hold := range c.holds {
		if err := hold.Err(); err != nil {
			c.t.Errorf("lock %d: %v", i, err)
		}
	}
	c.allHeard(created)
	c.quit()
	c.watchers.Wait()
	for _, cl := range c.clients {
		_ = cl.Close() // the sessions that it cannot close expire
	}
}

// allHeard waits until each watch has received the expected events, and checks that none receives more.
func (c *crowd) allHeard(created int) {
	enough := func() (all bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		all = true
		for _, n := range c.received {
			all = all && n >= created
		}
		return all
	}
	for range 100 {
		if enough() {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range c.received {
		if n != created {
			c.t.Errorf("watch %d received %d events, want %d", i, n, created)
		}
	}
}

// writes creates entries for the watches, until the returned function is called, which returns how many it has created.
func (c *crowd) writes() (stop func() int) {
	quit, created := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		defer func() { created <- n }()
		for ; ; n++ {
			_, err := c.sessions[1].Tree().Create(context.Background(), fmt.Sprintf("%s/%d", rolledPath, n), nil,
				client.CreateOptions{})
			if err != nil {
				c.t.Errorf("create: %v", err)
				return
			}
			select {
			case <-quit:
				n++
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() int { close(quit); return <-created }
}

// watched checks the promises of all sessions, until the returned function is called. It returns the longest time that
// a session was without a promise, and the shortest remaining promise.
func (c *crowd) watched() (stop func() (gap, least time.Duration)) {
	quit, done := make(chan struct{}), make(chan struct{})
	var gap time.Duration
	least := time.Hour
	since := make([]time.Time, len(c.sessions))
	go func() {
		defer close(done)
		for {
			now := time.Now()
			for i, s := range c.sessions {
				until := s.SafeUntil()
				switch {
				case !until.IsZero():
					least = min(least, until.Sub(now))
					since[i] = time.Time{}
				case since[i].IsZero():
					since[i] = now
					gap = max(gap, 1)
				default:
					gap = max(gap, now.Sub(since[i]))
				}
			}
			select {
			case <-quit:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() (time.Duration, time.Duration) { close(quit); <-done; return gap, least }
}
