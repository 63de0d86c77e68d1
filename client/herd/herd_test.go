package herd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/ratelimit"
)

const herdTimeout = 10 * time.Second

// herdTrial describes a herd: a number of clients, and two nodes that admit a number of resumes a second each.
type herdTrial struct {
	clients, resumes int
	// each is how many sessions a client has; 0 for one.
	each int
	// breaks are the times at which all connections break again.
	breaks []time.Duration
	// flood is the number of resumes that each node gets just before, each on a connection that then ends. calls is the
	// number of unary calls.
	flood, calls int
	// rude is n when each n-th client ignores retry times; 0 when none does.
	rude int
	// third is the time at which the dead node is back; 0 for never.
	third time.Duration
}

// herdOutcome is the outcome of a herdTrial.
type herdOutcome struct {
	herdTrial
	back    []time.Duration // the times at which clients were served again, in order
	late    int             // clients that came back after their deadline
	ended   int             // sessions that ended for their clients
	expired uint64          // sessions that the cluster ended
	lapsed  int             // sessions that had no promise for a while
	asked   int             // resumes that the nodes received
	// messages is how many messages of several resumes the nodes received.
	messages int
	peak     int    // the most resumes that one node admitted within a second
	allowed  int    // the most resumes that a node may admit within a second
	touches  uint64 // refused touches
}

// run breaks all connections of a cluster while one node dies, and watches for a timeout and two seconds more.
func (trial herdTrial) run(t *testing.T) (o herdOutcome) {
	t.Helper()
	o.herdTrial = trial
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		each := max(trial.each, 1)
		cluster, sessions := newHerdCluster(t, trial.clients*each, each,
			ratelimit.Config{Resumes: trial.resumes, Touches: 50 * trial.resumes})
		defer cluster.stop()
		for _, n := range cluster.nodes {
			n.flood(trial)
		}
		h := newHerd(t, ctx, cluster, sessions, each, 1)
		for i, c := range h.clients {
			c.rude = trial.rude > 0 && i%trial.rude == 0
		}
		if trial.third > 0 {
			h.at(trial.third, func() { cluster.begin(3) })
		}
		for _, at := range trial.breaks {
			h.at(at, h.breakAll)
		}
		h.run(herdTimeout + 2*time.Second)
		for _, c := range h.clients {
			for _, s := range c.sessions {
				if s.backAt > 0 {
					o.back = append(o.back, s.backAt)
				}
				if s.backAt > s.deadline {
					o.late++
				}
				if s.err != nil {
					o.ended++
				}
				if s.lapsed {
					o.lapsed++
				}
			}
		}
		slices.Sort(o.back)
		o.expired = cluster.tracker.Stats().Expired
		o.allowed = trial.resumes + trial.resumes/10
		for _, n := range cluster.nodes {
			o.asked += n.asked
			o.messages += n.messages
			o.touches += n.limiter.Refused()[ratelimit.Touches][ratelimit.OfNode]
			from := 0
			for i, at := range n.admitted {
				for at-n.admitted[from] >= time.Second {
					from++
				}
				o.peak = max(o.peak, i-from+1)
			}
		}
		cancel()
	})
	return o
}

// sessions returns how many sessions the clients have.
func (o herdOutcome) sessions() int { return o.clients * max(o.each, 1) }

// verdict returns an error for each thing that is wrong with the outcome; nil when no session was lost.
func (o herdOutcome) verdict() error {
	var errs []error
	if o.expired > 0 || o.ended > 0 {
		errs = append(errs, fmt.Errorf("the cluster expired %d sessions, %d ended for their clients", o.expired,
			o.ended))
	}
	if missing := o.sessions() - len(o.back); missing > 0 || o.late > 0 {
		errs = append(errs, fmt.Errorf("%d sessions did not return, and %d returned after their deadline", missing,
			o.late))
	}
	if o.touches > 0 {
		errs = append(errs, fmt.Errorf("%d touches of clients that had returned were refused", o.touches))
	}
	if o.peak > o.allowed {
		errs = append(errs, fmt.Errorf("a node admitted %d resumes within a second, more than its budget of %d", o.peak,
			o.allowed))
	}
	return errors.Join(errs...)
}

// last returns the time at which the last client was served again.
func (o herdOutcome) last() time.Duration {
	if len(o.back) == 0 {
		return 0
	}
	return o.back[len(o.back)-1]
}

// String returns the curve: the clients that returned in each 100 ms.
func (o herdOutcome) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d clients of %d sessions, timeout %v; two nodes, %d resumes a second each\n", o.clients,
		max(o.each, 1), herdTimeout, o.resumes)
	fmt.Fprintf(&b, "back %d, the last after %v; expired %d, lapsed %d; %.2f resumes asked for a session; at most %d "+
		"a second at a node, allowed %d\n\n",
		len(o.back), o.last().Round(time.Millisecond), o.expired, o.lapsed, float64(o.asked)/float64(o.sessions()), o.peak,
		o.allowed)
	const step, width = 100 * time.Millisecond, 40
	most, counts := 1, make([]int, o.last()/step+1)
	for _, at := range o.back {
		counts[at/step]++
	}
	most = max(most, slices.Max(counts))
	b.WriteString("  from   back in 100 ms     all\n")
	all := 0
	for i, n := range counts {
		all += n
		fmt.Fprintf(&b, "%5.1f s %6d %7d  %s\n", (time.Duration(i) * step).Seconds(), n, all,
			strings.Repeat("#", (n*width+most-1)/most))
	}
	return b.String()
}

// 50,000 clients with a session each lose their connections at the same moment, and a third of them lose their node.
// They return at the rate that the nodes allow, each before its session may expire.
func TestHerd(t *testing.T) {
	trial := herdTrial{clients: 50_000, resumes: 5000}
	if bubble.Race {
		trial = herdTrial{clients: 5000, resumes: 500}
	}
	o := trial.run(t)
	curve := o.String()
	t.Log("\n" + curve)
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), "herd.txt"), []byte(curve), 0o600); err != nil {
		t.Error(err)
	}
	if err := o.verdict(); err != nil {
		t.Error(err)
	}
	// The time that the budgets of both nodes need for all clients, and a second for jitter and for overtaken clients.
	if bound := time.Duration(o.clients)*time.Second/time.Duration(2*o.resumes) + time.Second; o.last() > bound {
		t.Errorf("the last client returned after %v, want at most %v", o.last(), bound)
	}
	if o.lapsed > 0 {
		t.Errorf("%d sessions had no promise for a while", o.lapsed)
	}
	if most := 3 * o.clients; o.asked > most {
		t.Errorf("%d resumes were asked for %d sessions, want %d at most", o.asked, o.clients, most)
	}
}

// small returns the trial itself, and a tenth of it under the race detector.
func (trial herdTrial) small() herdTrial {
	if bubble.Race {
		trial.clients, trial.resumes, trial.flood, trial.calls = trial.clients/10, trial.resumes/10, trial.flood/10,
			trial.calls/10
	}
	return trial
}

// A herd meets other load: its connections break again while it waits, and requests of clients that have gone stand
// before its own. No client waits behind a client that has gone.
func TestHerdBehindGhosts(t *testing.T) {
	for name, tt := range map[string]struct {
		trial herdTrial
		bound time.Duration
		late  int // so many clients may return after their deadline, while their sessions live
	}{
		"connections that break again and again": {
			herdTrial{clients: 50_000, resumes: 5000, breaks: []time.Duration{time.Second, 2 * time.Second}},
			herdTimeout, 50,
		},
		"clients that have gone":     {herdTrial{clients: 50_000, resumes: 5000, flood: 30_000}, 6 * time.Second, 0},
		"a tenth that does not wait": {herdTrial{clients: 50_000, resumes: 5000, rude: 10}, 8 * time.Second, 0},
		"a node that is back": {
			herdTrial{clients: 50_000, resumes: 5000, third: 3 * time.Second},
			6 * time.Second, 0,
		},
		"calls that nobody repeats": {herdTrial{clients: 50_000, resumes: 5000, calls: 30_000}, 6 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := tt.trial.small().run(t)
			t.Log("\n" + o.String())
			o.late = max(o.late-tt.late, 0)
			if err := o.verdict(); err != nil {
				t.Error(err)
			}
			if o.last() > tt.bound {
				t.Errorf("the last client returned after %v, want at most %v", o.last(), tt.bound)
			}
		})
	}
}

// The control: with budgets that need longer than the timeout, the same verdict finds sessions expired.
func TestHerdThatIsTooLarge(t *testing.T) {
	o := herdTrial{clients: 3000, resumes: 100}.run(t)
	err := o.verdict()
	t.Logf("%v\n%s", err, o)
	if err == nil || o.expired < 500 || o.peak > o.allowed {
		t.Errorf("expired %d, verdict %v: want the verdict to see at least 500 expired sessions", o.expired, err)
	}
}

var _ session.Events = (*herdConn)(nil)

// Clients with thousands of sessions each lose their nodes. They move all sessions with a few messages, and keep to the
// budgets of the nodes.
func TestHerdOfLargeClients(t *testing.T) {
	for name, trial := range map[string]herdTrial{
		"one client":              {clients: 1, each: 5000, resumes: 20_000},
		"ten clients":             {clients: 10, each: 5000, resumes: 20_000},
		"ten clients, low budget": {clients: 10, each: 5000, resumes: 5000},
	} {
		t.Run(name, func(t *testing.T) {
			if bubble.Race {
				trial.each, trial.resumes = trial.each/10, trial.resumes/10
			}
			o := trial.run(t)
			t.Log("\n" + o.String())
			if err := o.verdict(); err != nil {
				t.Error(err)
			}
			spare := 500 * time.Millisecond
			if trial.clients > 1 {
				spare = 3 * time.Second // some are sent to and fro between the nodes
			}
			bound := time.Duration(o.sessions())*time.Second/time.Duration(min(2, trial.clients)*trial.resumes) + spare
			if o.last() > bound {
				t.Errorf("the last session was served again after %v, want at most %v", o.last(), bound)
			}
			each := 10
			if bubble.Race {
				each = 5 // a tenth of the budget has room for fewer at a time
			}
			if few := o.asked/each + 10*trial.clients; o.messages > few {
				t.Errorf("%d messages for %d resumes, want at most %d", o.messages, o.asked, few)
			}
			t.Logf("%d messages of several resumes", o.messages)
		})
	}
}
