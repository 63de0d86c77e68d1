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
	"holdfast/transport/gate"
)

const herdTimeout = 10 * time.Second

// herdTrial is a herd: so many clients against two nodes that each take on so many resumes a second.
type herdTrial struct {
	clients, resumes int
	// breaks are moments at which all connections break again.
	breaks []time.Duration
	// flood are resumes that each node is asked for, by as many connections, just before, and whose clients are gone
	// then; calls are unary ones.
	flood, calls int
	// rude clients, one in so many, take no notice of when they are to come back.
	rude int
	// third is when the node that died is back; 0 is never.
	third time.Duration
}

// herdOutcome is what became of it.
type herdOutcome struct {
	herdTrial
	back    []time.Duration // when each client was served again, in order; those that never were are left out
	late    int             // clients that came back after their deadline
	ended   int             // sessions that ended for their clients
	expired uint64          // sessions that the cluster ended
	lapsed  int             // sessions that were without a promise for a while
	asked   int             // resumes that the nodes were asked for
	peak    int             // the most that one node admitted within a second
	allowed int             // the most that it may
	touches uint64          // touches that were refused
}

// run lets all connections of a cluster break at once, one node dying, and watches for a timeout and more.
func (trial herdTrial) run(t *testing.T) (o herdOutcome) {
	t.Helper()
	o.herdTrial = trial
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		cluster, sessions := newHerdCluster(t, trial.clients,
			gate.Config{Resumes: trial.resumes, Touches: 50 * trial.resumes})
		defer cluster.stop()
		for _, n := range cluster.nodes {
			n.flood(trial)
		}
		h := newHerd(t, ctx, cluster, sessions, 1)
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
			if c.backAt > 0 {
				o.back = append(o.back, c.backAt)
			}
			if c.backAt > c.deadline {
				o.late++
			}
			if c.err != nil {
				o.ended++
			}
			if c.lapsed {
				o.lapsed++
			}
		}
		slices.Sort(o.back)
		o.expired = cluster.tracker.Stats().Expired
		o.allowed = trial.resumes + trial.resumes/10
		for _, n := range cluster.nodes {
			o.asked += n.asked
			o.touches += n.gate.Refused()[gate.Touches][gate.OfNode]
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

// verdict is what is wrong with the outcome: nil when the herd lost nothing.
func (o herdOutcome) verdict() error {
	var errs []error
	if o.expired > 0 || o.ended > 0 {
		errs = append(errs, fmt.Errorf("the cluster expired %d sessions, %d ended for their clients", o.expired,
			o.ended))
	}
	if missing := o.clients - len(o.back); missing > 0 || o.late > 0 {
		errs = append(errs, fmt.Errorf("%d clients are not back, and %d came back after their deadline", missing,
			o.late))
	}
	if o.touches > 0 {
		errs = append(errs, fmt.Errorf("%d touches of those who are back were refused", o.touches))
	}
	if o.peak > o.allowed {
		errs = append(errs, fmt.Errorf("a node admitted %d within a second, its budget is %d", o.peak, o.allowed))
	}
	return errors.Join(errs...)
}

// last is when the last client was back.
func (o herdOutcome) last() time.Duration {
	if len(o.back) == 0 {
		return 0
	}
	return o.back[len(o.back)-1]
}

// String shows the curve: who is back, by 100 ms.
func (o herdOutcome) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d clients, timeout %v; two nodes, %d resumes a second each\n", o.clients, herdTimeout, o.resumes)
	fmt.Fprintf(&b, "back %d, the last after %v; expired %d, lapsed %d; %.2f resumes asked for a session; at most %d "+
		"a second at a node, allowed %d\n\n",
		len(o.back), o.last().Round(time.Millisecond), o.expired, o.lapsed, float64(o.asked)/float64(o.clients), o.peak,
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
	// What the budgets of both nodes need for all, less the burst, and a second for jitter and for those whose token
	// another one took.
	if bound := time.Duration(o.clients)*time.Second/time.Duration(2*o.resumes) + time.Second; o.last() > bound {
		t.Errorf("the last was back after %v, want %v at most", o.last(), bound)
	}
	if o.lapsed > 0 {
		t.Errorf("%d sessions were without a promise for a while", o.lapsed)
	}
	if most := 3 * o.clients; o.asked > most {
		t.Errorf("%d resumes were asked for %d sessions, want %d at most", o.asked, o.clients, most)
	}
}

// small returns the trial for a run under the race detector: a tenth of it.
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
		late  int // so many may come back after what they were promised, but not expired
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
				t.Errorf("the last was back after %v, want %v at most", o.last(), tt.bound)
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
		t.Errorf("expired %d, verdict %v: the judge sees nothing", o.expired, err)
	}
}

var _ session.Events = (*herdConn)(nil)
