// Package sim runs whole clusters with the production's wiring in testing/synctest bubbles: nodes, Raft, bbolt, gRPC, the
// SDK. Only the network is simulated. Faults follow a seed; a checker holds the recorded history against the invariants.
//
//	make sim SEEDS=100     seeds 1 to 100
//	SEED=17 go test -run Sim ./test/sim     one seed again
//
// One seed gives one schedule of faults and one order of what clients draw; how goroutines interleave is not repeated, so
// a finding may take a few runs to come back.
package sim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/sim/check"
	"holdfast/test/sim/faults"
	"holdfast/test/sim/history"
)

const (
	// defaultSeeds is how many seeds go test runs by itself.
	defaultSeeds = 8
	// settle is how long after the last fault a cluster may take to serve everybody again: Raft's back-off after a heal,
	// an election, and the SDK's.
	settle = 20 * time.Second
	// faultCount is the number of faults of one run, calm the length of the calm spells between some of them.
	faultCount = 8
	calm       = 45 * time.Second
)

func bounds() check.Bounds {
	return check.Bounds{ExpiryInterval: 250 * time.Millisecond, Commit: time.Second, Settle: settle}
}

// totals adds up what the seeds of a test did.
type totals struct {
	mu      sync.Mutex
	hit     map[faults.Kind]int // guarded by mu; faults by kind that really held something back or killed somebody
	checked map[string]int      // guarded by mu
}

func TestSim(t *testing.T) {
	sum := &totals{hit: make(map[faults.Kind]int), checked: make(map[string]int)}
	seeds := seeds(t)
	t.Run("seeds", func(t *testing.T) {
		for _, seed := range seeds {
			nodes := 3
			if seed%4 == 0 {
				nodes = 5
			}
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { run(t, seed, nodes, sum) })
			})
		}
	})
	t.Logf("faults that hit: %v", sum.hit)
	t.Logf("checked: %v", sum.checked)
	if len(seeds) < defaultSeeds || t.Failed() {
		return
	}
	for _, k := range faults.Kinds() {
		if sum.hit[k] == 0 {
			t.Errorf("over %d seeds no %s hit anything", len(seeds), k)
		}
	}
	for _, name := range []string{"I1", "I1 certificate", "I2", "I3", "I4", "E5", "I6", "I7", "context", "told moved", "served"} {
		if sum.checked[name] == 0 {
			t.Errorf("over %d seeds %s was never put to the test", len(seeds), name)
		}
	}
}

// seeds returns SEED alone, or 1 to SEEDS.
func seeds(t *testing.T) []uint64 {
	t.Helper()
	if s := os.Getenv("SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("SEED: %v", err)
		}
		return []uint64{seed}
	}
	n := defaultSeeds
	if s := os.Getenv("SEEDS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 1 {
			t.Fatalf("SEEDS must be a positive number: %q", s)
		}
	}
	all := make([]uint64, n)
	for i := range all {
		all[i] = uint64(i + 1)
	}
	return all
}

// run is the life of one cluster.
func run(t *testing.T, seed uint64, nodes int, sum *totals) {
	t.Helper()
	// The bubble's clock starts in 2000, and ids count from 2026.
	time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0)))
	w := newWorld(t, seed, nodes)
	plan := faults.Plan(w.stream("faults"), nodes, faultCount, calm)
	for _, name := range w.names {
		w.Start(name)
	}
	p := w.population()
	w.clients = p.names()

	running, stop := context.WithCancel(context.Background())
	sampling := w.everySecond(running, w.sample)
	log := &faultLog{w: w, sum: sum, held: make(map[string]int)}
	p.begin(running)
	sleep(running, settle)
	faults.Run(running, plan, w, log)
	w.record.Add(history.Event{Kind: history.Healed})
	sleep(running, settle)
	p.testify(running)
	stop()
	p.wait()
	sampling.Wait()
	sleep(context.Background(), 2*settle) // whoever is silent has to expire meanwhile
	w.sample()
	w.record.Add(history.Event{Kind: history.Finished})
	p.stop()
	w.stop()
	if left := w.Conns(); left != 0 {
		t.Logf("%d connection ends are still open", left)
	}
	w.judge(plan, sum)
}

// everySecond calls f every half second until ctx ends.
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

// population is everybody who lives on a cluster.
type population struct {
	tenants, mortals []*tenant
	ghosts           []*ghost
	// impatient ends the last waits of mortals.
	impatient context.CancelFunc
	lives     sync.WaitGroup
}

func (w *world) population() *population {
	p := &population{}
	for i := range 3 {
		p.tenants = append(p.tenants, w.tenant(fmt.Sprintf("c%d", i+1)))
	}
	for i := range 2 {
		p.mortals = append(p.mortals, w.tenant(fmt.Sprintf("m%d", i+1)))
	}
	for i := range 2 {
		p.ghosts = append(p.ghosts, w.ghost(fmt.Sprintf("g%d", i+1)))
	}
	return p
}

func (p *population) names() []string {
	var names []string
	for _, x := range append(p.tenants, p.mortals...) {
		names = append(names, x.name)
	}
	for _, g := range p.ghosts {
		names = append(names, g.name)
	}
	return names
}

// begin starts everybody; they live until ctx ends.
func (p *population) begin(ctx context.Context) {
	patience, impatient := context.WithCancel(context.WithoutCancel(ctx))
	p.impatient = impatient
	for i, x := range p.tenants {
		others := append(append([]*tenant(nil), p.tenants[:i]...), p.tenants[i+1:]...)
		p.lives.Go(func() { x.live(ctx, others) })
	}
	for _, x := range p.mortals {
		p.lives.Go(func() { x.die(ctx, patience) })
	}
	for _, g := range p.ghosts {
		p.lives.Go(func() { g.haunt(ctx) })
	}
}

// testify has the living say so, and open a session each.
func (p *population) testify(ctx context.Context) {
	var all sync.WaitGroup
	for _, x := range p.tenants {
		all.Go(func() { x.testify(ctx) })
	}
	all.Wait()
}

// wait waits for everybody to come to the end of what they do; the dead are given a bounded time to die.
func (p *population) wait() {
	timer := time.AfterFunc(3*settle, p.impatient)
	defer timer.Stop()
	p.lives.Wait()
}

func (p *population) stop() {
	p.impatient()
	for _, x := range append(p.tenants, p.mortals...) {
		x.stop()
	}
	for _, g := range p.ghosts {
		g.stop()
	}
}

// faultLog records faults and counts those that really hit something.
type faultLog struct {
	w   *world
	sum *totals

	mu   sync.Mutex
	held map[string]int // guarded by mu; what the network had held back when a fault began
}

// Began implements faults.Log.
func (l *faultLog) Began(_ faults.Kind, text string) {
	l.mu.Lock()
	l.held[text] = l.w.HeldInAll()
	l.mu.Unlock()
	l.w.record.Add(history.Event{Kind: history.FaultBegan, Text: text})
}

// Ended implements faults.Log.
func (l *faultLog) Ended(k faults.Kind, text string) {
	l.w.record.Add(history.Event{Kind: history.FaultEnded, Text: text})
	l.mu.Lock()
	hit := l.w.HeldInAll() > l.held[text] || strings.Contains(text, "kill")
	l.mu.Unlock()
	if hit {
		l.sum.mu.Lock()
		l.sum.hit[k]++
		l.sum.mu.Unlock()
	}
}

// judge checks the history, and tells the story of what went wrong.
func (w *world) judge(plan []faults.Fault, sum *totals) {
	w.t.Helper()
	events := w.record.Events()
	r := check.Check(events, bounds())
	sum.mu.Lock()
	for name, n := range r.Checked {
		sum.checked[name] += n
	}
	sum.mu.Unlock()
	const shown = 3
	told := make(map[session.ID]bool)
	for _, v := range r.Violations {
		w.t.Errorf("seed %d: %s", w.seed, v)
		if !told[v.ID] && len(told) < shown {
			told[v.ID] = true
			w.t.Logf("the story of session %s and the faults:\n%s", v.ID, history.Story(events, v.ID))
		}
	}
	if w.t.Failed() || os.Getenv("SIM_LOG") != "" {
		w.keep(plan, events)
	}
}

// keep writes the whole history and the logs to where go test -artifacts keeps them, and prints the plan.
func (w *world) keep(plan []faults.Fault, events []history.Event) {
	var b strings.Builder
	for i, f := range plan {
		fmt.Fprintf(&b, "  %d: %s\n", i+1, f)
	}
	w.t.Logf("SEED=%d repeats the plan:\n%s", w.seed, b.String())
	b.Reset()
	for _, e := range events {
		b.WriteString(e.String() + "\n")
	}
	dir := w.t.ArtifactDir()
	for name, text := range map[string]string{"history.txt": b.String(), "log.txt": w.logs.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			w.t.Errorf("keep %s: %v", name, err)
		}
	}
	w.t.Logf("history and logs are in %s; go test -artifacts keeps them. The logs end with:\n%s", dir, w.logs.tail(40))
}
