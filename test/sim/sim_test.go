// Package sim runs whole clusters of production code (nodes, Raft, bbolt, gRPC and the SDK) in testing/synctest
// bubbles. Only the network, the faults of disks and clocks, and the cluster's users are simulated. A seed determines
// the faults; package check checks the recorded history. README.md explains how to run a seed, how to read a failure,
// and where to add a fault, a user or a check.
package sim

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/sim/check"
	"holdfast/test/sim/faults"
	"holdfast/test/sim/history"
	"holdfast/test/sim/stats"
)

const (
	// defaultSeeds is the number of seeds that go test runs: enough that every kind of fault is dealt more than once.
	defaultSeeds = 14
	// recovery is how long after the last fault a cluster may need to serve every client again. It covers Raft's back-off
	// after a heal, an election, and the SDK's back-off.
	recovery = 20 * time.Second
	// served is how long clients continue after that, so that the checker sees each of them served.
	served = 2 * time.Second
	// faultCount is the number of faults of one run, calm the length of the calm spells between some of them.
	faultCount = 6
	calm       = 45 * time.Second
	// opening is how long a cluster runs before the first fault, unless a calm spell comes first.
	opening = 5 * time.Second
	// dying is how long after a run silent sessions may need to expire: the longest timeout, a round and a commit.
	dying = 14 * time.Second
	// longestDelay is the longest lock-delay of a contender.
	longestDelay = 3 * time.Second
	// lastTurns is how long all contenders need for their last turns, once no dead contender is ahead of them.
	lastTurns = 8 * time.Second
)

func bounds(nodes int) check.Bounds {
	cfg := config.Default()
	return check.Bounds{
		ExpiryInterval: 250 * time.Millisecond, Commit: time.Second, Calm: 50 * time.Millisecond, Recovery: recovery,
		Interval: 500 * time.Millisecond, Quorum: nodes/2 + 1, Serve: recovery,
		Turn: recovery + longest + longestDelay + lastTurns, Reap: time.Second,
		Probe: time.Second,
		// N1
		ReadOnlyAfter: 3*cfg.Sessions.HeartbeatInterval + 2*cfg.Raft.HeartbeatTimeout + 2*time.Second,
	}
}

func TestSim(t *testing.T) {
	sum := &totals{Sum: stats.NewSum()}
	seeds := seeds(t)
	t.Run("seeds", func(t *testing.T) {
		for _, seed := range seeds {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				runSeed(t, seed, sum)
			})
		}
	})
	t.Logf("%v of virtual time; faults that hit: %v", sum.Virtual.Round(time.Second), sum.Hit)
	t.Logf("checked: %v", sum.Checked)
	if len(seeds) < defaultSeeds || t.Failed() || os.Getenv(reportVariable) != "" {
		return // the reader of the reports judges the sum
	}
	var missed []faults.Kind
	for _, k := range faults.Kinds() {
		if sum.Faults[k.String()] == 0 {
			t.Errorf("over %d seeds no %s was injected", len(seeds), k)
		}
		if sum.Hit[k.String()] == 0 {
			missed = append(missed, k)
		}
	}
	// A kind has two or three chances here, and a hung disk may meet no write. The soak requires that every kind hits.
	if len(missed) > 2 {
		t.Errorf("over %d seeds none of these hit anything: %v", len(seeds), missed)
	}
	if sum.Counts[stats.Installed] == 0 {
		t.Errorf("over %d seeds no snapshot was installed", len(seeds))
	}
	for _, name := range check.Names() {
		if sum.Checked[name] == 0 {
			t.Errorf("over %d seeds %s was never put to the test", len(seeds), name)
		}
	}
}

// seeds returns SEED alone, or SEEDS seeds from FROM on.
func seeds(t *testing.T) []uint64 {
	t.Helper()
	if os.Getenv("SEED") != "" {
		return []uint64{variable(t, "SEED", 0)}
	}
	all := make([]uint64, variable(t, "SEEDS", defaultSeeds))
	from := variable(t, "FROM", 1)
	for i := range all {
		all[i] = from + uint64(i)
	}
	return all
}

func variable(t *testing.T, name string, fallback uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return fallback
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n < 1 {
		t.Fatalf("%s must be a positive number: %q", name, s)
	}
	return n
}

// runSeed runs a seed in a bubble, and reports it.
func runSeed(t *testing.T, seed uint64, sum *totals) {
	t.Helper()
	nodes := 3
	if seed%4 == 0 {
		nodes = 5
	}
	began := time.Now() // measured outside the bubble
	r := newReport(seed, nodes)
	end := r.begins(t)
	defer end()
	bubble.Test(t, func(t *testing.T) { run(t, r) })
	r.Wall = time.Since(began)
	sum.add(r)
}

// totals are the sums over a test's seeds.
type totals struct {
	mu sync.Mutex
	*stats.Sum
}

func (s *totals) add(r *report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Add(r.Report)
}

// run is the life of one cluster.
func run(t *testing.T, r *report) {
	t.Helper()
	// The bubble's clock starts in 2000, and ids count from 2026.
	time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0)))
	w := newWorld(t, r)
	shape := faults.Shape{Nodes: len(w.names), Count: faultCount, Deal: r.Seed}
	quiet := opening
	if r.Seed%3 == 0 {
		shape.Calm, quiet = calm, recovery
	}
	plan := faults.Plan(w.stream("faults"), shape)
	w.eager = r.Seed%2 == 1 || slices.ContainsFunc(plan, func(f faults.Fault) bool {
		return f.Kind == faults.OldSnapshot
	})
	w.readOnly = w.mayRead()
	w.watched = true
	for _, name := range w.names {
		w.Start(name)
	}
	p := w.population()
	w.clients, w.callers = p.names(), p.callers()
	links, hiccups, lags := w.badLinks(), w.hiccups(), slices.Concat(w.lagging(), w.crossing())
	beside, after := w.successions()
	lags = append(lags, w.orders()...)
	ends, keeps := w.acts()
	roll := w.newMembers()

	running, stop := context.WithCancel(context.Background())
	sampling := w.everySecond(running, w.sample)
	registrar := w.registers(running)
	p.begin(running)
	p.lives.Go(func() { w.archive(running) })
	sleep(running, quiet)
	faults.Run(running, w, faultLog{w}, plan, links, hiccups, beside, lags, ends, keeps, roll)
	w.seclude(running, p)
	faults.RunFrom(running, w, faultLog{w},
		1+len(slices.Concat(plan, links, hiccups, beside, lags, ends, keeps, roll)), after)
	w.record.Add(history.Event{Kind: history.Healed})
	p.want()
	sleep(running, recovery+served)
	p.testify(running)
	w.recovered()
	stop()
	p.wait()
	sampling.Wait()
	registrar.Wait()
	sleep(context.Background(), dying)
	w.sample()
	w.record.Add(history.Event{Kind: history.Finished})
	p.stop()
	w.stop()
	if left := w.Conns(); left != 0 {
		t.Logf("%d connection ends are still open", left)
	}
	w.judge(slices.Concat(plan, links, hiccups, beside, lags, ends, keeps, roll, after))
}

// badLinks draws faults of the links of clients, beside the plan, for every third seed without calm spells, which they
// would disturb. Their draws are separate, so that all other decisions of a seed stay the same.
func (w *world) badLinks() []faults.Fault {
	if w.seed%3 != 1 {
		return nil
	}
	return faults.Links(w.stream("links"), len(w.names))
}

// hiccups draws hiccups for every eleventh seed from 9 on, with separate draws like badLinks.
func (w *world) hiccups() []faults.Fault {
	if w.seed%11 != 9 {
		return nil
	}
	return faults.Stutter(w.stream("hiccups"), len(w.names))
}

// lagging draws nodes that apply slowly for every fourth seed from 2 on, with separate draws like badLinks.
func (w *world) lagging() []faults.Fault {
	if w.seed%4 != 2 {
		return nil
	}
	return faults.Lags(w.stream("lags"), len(w.names))
}

// crosses reports whether a seed has nodes whose streams to the leader overtake each other: every fourth from 3 on.
func (w *world) crosses() bool { return w.seed%4 == 3 }

// crossing draws them, with separate draws like badLinks.
func (w *world) crossing() []faults.Fault {
	if !w.crosses() {
		return nil
	}
	return faults.Crossings(w.stream("crossing"), len(w.names))
}

// orders draws what an operator does, for every sixth seed from 5 on, with separate draws like badLinks.
func (w *world) orders() []faults.Fault {
	if w.seed%6 != 5 {
		return nil
	}
	return faults.Orders(w.stream("orders"), len(w.names))
}

// administered says whether an operator ends and extends sessions: in two of thirteen seeds (2, 8, 15, 21, ...), which
// have local sessions or not, and all kinds of clients.
func (w *world) administered() bool { return w.seed%13 == 2 || w.seed%13 == 8 }

// acts draws that, with separate draws like badLinks.
func (w *world) acts() (ends, keeps []faults.Fault) {
	if !w.administered() {
		return nil, nil
	}
	ends, keeps = faults.Acts(w.stream("acts"), len(w.names))
	if w.seed%6 == 5 { // there another operator freezes the cluster
		keeps = slices.DeleteFunc(keeps, func(f faults.Fault) bool { return f.Kind == faults.Freeze })
	}
	return ends, keeps
}

// changes says whether the members of a cluster change: in two of thirteen seeds (4, 11, 17, 24, ...).
func (w *world) changes() bool { return w.seed%13 == 4 || w.seed%13 == 11 }

// newMembers draws how, with separate draws like badLinks.
func (w *world) newMembers() []faults.Fault {
	if !w.changes() {
		return nil
	}
	return faults.Changes(w.stream("members"), len(w.names))
}

// successions draws faults of a leader's succession: for one seed of five beside the plan, unless it has calm spells,
// and for one of five after all other faults, where the checker can determine which fault cost a leader. The draws are
// separate like those of badLinks.
func (w *world) successions() (beside, after []faults.Fault) {
	plan := faults.Successions(w.stream("successions"), len(w.names))
	switch {
	case w.seed%5 == 2 && w.seed%3 != 0:
		return plan, nil
	case w.seed%5 == 4:
		return nil, plan
	default:
		return nil, nil
	}
}

// everySecond calls f every second until ctx ends.
func (w *world) everySecond(ctx context.Context, f func()) *sync.WaitGroup {
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			f()
			sleep(ctx, time.Second)
		}
	})
	return &wg
}
