package noraft

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/leader"
	"holdfast/learner"
	"holdfast/session"
	"holdfast/test/bubble"
)

var (
	_ leader.Log   = (*log)(nil)
	_ leader.View  = view{}
	_ learner.View = view{}
	_ leader.Link  = leaderEnd{}
	_ learner.Link = learnerEnd{}
)

const timeout = 4 * time.Second

func testConfig() Config {
	return Config{Voters: 3, Limits: session.Limits{Min: timeout, Max: 2 * timeout}}
}

// A session that a client opens on one node and touches lives on all nodes. Once the client is silent it expires after
// its timeout, and within a few intervals.
func TestASessionLivesAndExpires(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := begin(t, testConfig())
		defer c.end(t)
		opened, conn := c.open(t, 2)
		id := opened.Session.ID
		for range 20 {
			time.Sleep(timeout / 4)
			safe, err := conn.TouchToken(t.Context(), opened.Token)
			if err != nil || safe <= 0 || safe >= timeout {
				t.Fatalf("a touch promises %v, %v; want above 0 and below %v", safe, err, timeout)
			}
		}
		last := time.Now()
		for since := time.Duration(0); ; since = time.Since(last) {
			if _, lives := c.State().Session(id); !lives {
				break
			}
			if since > timeout+4*Interval {
				t.Fatalf("the session lives %v after its last touch", since)
			}
			time.Sleep(time.Millisecond)
		}
		if since := time.Since(last); since < timeout {
			t.Errorf("the session expired %v after its last touch, and its timeout is %v", since, timeout)
		}
		if ended, ok := c.State().Certificate(id); !ok || ended.ID != id {
			t.Errorf("the certificate is %+v, %v", ended, ok)
		}
		if got := c.Tracker().Stats().Expired; got != 1 {
			t.Errorf("the tracker expired %d sessions, want 1", got)
		}
	})
}

// A learner whose stream has ended can follow again, and is not ready in between.
func TestALearnerFollowsAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := New(testConfig())
		ctx, cancel := context.WithCancel(t.Context())
		defer cluster{Cluster: c, cancel: cancel}.end(t)
		c.Lead(ctx)
		for n := range session.Node(2) { // a quorum without node 3
			c.Follow(ctx, n+1, c.Serve(ctx, n+1))
		}
		s := c.Serve(ctx, 3)
		for round := range 2 {
			following, end := context.WithCancel(ctx)
			c.Follow(following, 3, s)
			time.Sleep(3 * Interval)
			if err := s.Ready(); err != nil {
				t.Errorf("round %d: the node follows and is not ready: %v", round, err)
			}
			end()
			time.Sleep(timeout)
			if err := s.Ready(); err == nil {
				t.Errorf("round %d: the node follows nobody and is ready", round)
			}
		}
	})
}

// Without a commit time a proposal takes no time. With one, each entry takes it, and holds a batch at most.
func TestAnEntryTakesTheCommitTime(t *testing.T) {
	const commit = 4 * time.Millisecond
	for _, tt := range []struct {
		commit    time.Duration
		batch     int
		entries   uint64
		last, sum time.Duration // when the last of five proposals is applied, and the sum for all
	}{
		{0, 0, 5, 0, 0},
		{commit, 0, 5, 5 * commit, (1 + 2 + 3 + 4 + 5) * commit},
		{commit, 2, 3, 3 * commit, (1 + 1 + 2 + 2 + 3) * commit},
		{commit, 9, 1, commit, 5 * commit},
	} {
		bubble.Test(t, func(t *testing.T) {
			cfg := testConfig()
			cfg.Commit, cfg.Batch = tt.commit, tt.batch
			c := begin(t, cfg)
			defer c.end(t)
			before, start := c.State().AppliedIndex(), time.Now()
			took := make(chan time.Duration, 5)
			for i := range cap(took) {
				go func() {
					if _, err := c.log.Propose(t.Context(), opens(byte(i))); err != nil {
						t.Error(err)
					}
					took <- time.Since(start)
				}()
			}
			var last, sum time.Duration
			for range cap(took) {
				d := <-took
				last, sum = max(last, d), sum+d
			}
			if got := c.State().AppliedIndex() - before; got != tt.entries || last != tt.last || sum != tt.sum {
				t.Errorf("commit %v, batch %d: %d entries, the last after %v, %v in all; want %d, %v and %v", tt.commit,
					tt.batch, got, last, sum, tt.entries, tt.last, tt.sum)
			}
			if got := c.State().Sessions(); got != cap(took) {
				t.Errorf("%d sessions, want %d", got, cap(took))
			}
		})
	}
}

// A proposal whose context ends may be in the log, unless it never found room to wait.
func TestAProposalEndsWithItsContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLog(Config{Commit: time.Hour, Logger: hclog.NewNullLogger()})
		l.proposals = make(chan *proposal, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		waits := make(chan error, 1)
		go func() {
			_, err := l.Propose(ctx, opens(1))
			waits <- err
		}()
		synctest.Wait() // it fills the queue
		if _, err := l.Propose(ctx, opens(2)); !errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("a proposal without room: %v, want %v", err, context.DeadlineExceeded)
		}
		if err := <-waits; !errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("a proposal that waited: %v, want %v", err, session.ErrOutcomeUnknown)
		}
	})
}

// A command that is out of range is refused, and the cluster goes on. Once the state has halted, Apply and Wait return
// the reason.
func TestErrorsAreReturned(t *testing.T) {
	c := New(testConfig())
	if _, err := c.Apply(session.OpenSession{}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a command that is out of range: %v, want %v", err, session.ErrInvalid)
	}
	if _, err := c.Apply(opens(1), opens(2)); err != nil || c.State().Sessions() != 2 || c.Wait() != nil {
		t.Errorf("afterwards: %v, %d sessions, %v", err, c.State().Sessions(), c.Wait())
	}
	c.State().Apply(&raft.Log{Index: 99, Term: Term, Data: []byte("no entry")})
	_, err := c.Apply(opens(3))
	if halted := c.Wait(); halted == nil || !errors.Is(err, halted) {
		t.Errorf("a halted state: Apply returns %v, Wait %v", err, halted)
	}
}

// Two runs of the same clients end at the same index with the same state.
func TestRunsRepeat(t *testing.T) {
	type ending struct {
		index  uint64
		digest [16]byte
	}
	var endings []ending
	for range 2 {
		bubble.Test(t, func(t *testing.T) {
			cfg := testConfig()
			cfg.Commit, cfg.Batch = time.Millisecond, 16
			c := begin(t, cfg)
			defer c.end(t)
			for n := session.Node(1); n <= 3; n++ {
				opened, conn := c.open(t, n)
				if n == 1 {
					if err := conn.Close(t.Context(), opened.Token); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(2 * Interval) // expiries of the same moment have no fixed order
			}
			time.Sleep(2 * timeout) // the other two expire
			index, digest := c.State().Digest()
			endings = append(endings, ending{index, digest})
			if got := c.State().Sessions(); got != 0 {
				t.Errorf("%d sessions are left, want 0", got)
			}
		})
	}
	if endings[0] != endings[1] {
		t.Errorf("the runs end with %v and %v", endings[0], endings[1])
	}
}

// cluster is one in which three nodes follow the leader.
type cluster struct {
	*Cluster

	servers []*learner.Server // of nodes 1 to 3
	cancel  context.CancelFunc
}

// begin returns a cluster after a good round.
func begin(t *testing.T, cfg Config) cluster {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := cluster{Cluster: New(cfg), cancel: cancel}
	c.Lead(ctx)
	for n := range session.Node(3) {
		s := c.Serve(ctx, n+1)
		c.Follow(ctx, n+1, s)
		c.servers = append(c.servers, s)
	}
	time.Sleep(3 * Interval)
	return c
}

// end ends the cluster, and fails the test when its state has halted.
func (c cluster) end(t *testing.T) {
	t.Helper()
	c.cancel()
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// open opens a session on node n.
func (c cluster) open(t *testing.T, n session.Node) (session.Grant, session.Connection) {
	t.Helper()
	conn, err := c.servers[n-1].Connect(nil)
	if err != nil {
		t.Fatal(err)
	}
	grant, err := conn.Open(t.Context(), session.OpenRequest{
		RequestID: session.RequestID{byte(n)},
		Spec:      session.Spec{Timeout: timeout},
	})
	if err != nil {
		t.Fatal(err)
	}
	return grant, conn
}

// opens is a command that opens a session, another one for each n.
func opens(n byte) session.Command {
	return session.OpenSession{
		Node: 1, MS: uint64(n), Spec: session.Spec{Timeout: timeout},
		RequestID: session.RequestID{n, 1},
	}
}
