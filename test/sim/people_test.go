package sim

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/test/sim/check"
	"holdfast/test/sim/history"
)

// population is all clients of a cluster.
type population struct {
	tenants, mortals []*tenant
	ghosts           []*ghost
	// hermits, lifters, vanishers and keepers use local sessions, in clusters that have them.
	hermits, lifters, vanishers []*tenant
	keepers                     []*keeper
	// readers and wanderers read. Wanderers are in every cluster.
	readers []*tenant
	// scribes use the tree. They are in every cluster.
	scribes []*scribe
	// authors write to the tree in bursts. They are in every cluster.
	authors   []*author
	wanderers []*wanderer
	// gardeners change the part of the tree that watchers watch.
	gardeners []*gardener
	watchers  []*watcher
	streamers []*streamer
	// contenders use the recipes, in clusters that have them.
	contenders []*contender
	// workers cooperate by the other recipes, in clusters that have them.
	workers []*worker
	// heavies fill one budget after the other, and neighbours hold little, in narrow clusters.
	heavies    []*heavy
	neighbours []*neighbour
	// zookeepers use the ZooKeeper port, in clusters that serve it.
	zookeepers []*zookeeper
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
	if w.locals() {
		p.hermits = append(p.hermits, w.localTenant("h1", 1))
		p.lifters = append(p.lifters, w.localTenant("l1", 0.8), w.localTenant("l2", 0.8))
		p.vanishers = append(p.vanishers, w.localTenant("v1", 1))
		p.keepers = append(p.keepers, &keeper{w.ghost("k1")})
	}
	shelf := &shelf{}
	p.scribes = append(p.scribes, w.scribe("s1", shelf), w.scribe("s2", shelf))
	if w.narrow() {
		p.heavies = append(p.heavies, w.heavy())
		p.neighbours = append(p.neighbours, &neighbour{w.tenant(nextHost)})
	} else if !without(check.Authors) {
		desk := &desk{versions: make(map[string]int64)}
		p.authors = append(p.authors, w.author("a1", desk), w.author("a2", desk))
	}
	p.wanderers = append(p.wanderers, w.wanderer("w1"))
	if w.zookeepers() {
		p.zookeepers = append(p.zookeepers, w.zookeeper("z1"), w.zookeeper("z2"))
	}
	if w.watched {
		p.gardeners = append(p.gardeners, w.gardener("x1"))
		p.watchers = append(p.watchers, w.watcher(knownWatcher, true), w.watcher(otherWatcher, false))
		p.streamers = append(p.streamers, w.streamer("o3"))
	}
	if w.contested() {
		c := w.contest()
		for i := range 4 {
			p.contenders = append(p.contenders, w.contender(fmt.Sprintf("p%d", i+1), c))
		}
	}
	if w.staffed() {
		y := w.yard()
		for i := range workers {
			p.workers = append(p.workers, w.worker(fmt.Sprintf("q%d", i+1), y))
		}
	}
	if len(w.readOnly) > 0 {
		p.readers = append(p.readers, w.librarian("r1", true), w.librarian("r2", true), w.librarian("r3", false))
		p.wanderers = append(p.wanderers, w.wanderer("w2"))
	}
	return p
}

// without reports whether a run leaves some clients out.
func without(some string) bool {
	return slices.Contains(strings.Split(os.Getenv("WITHOUT"), ","), some)
}

// wanting returns the tenants that must be served after the last fault. sdk returns all tenants.
func (p *population) wanting() []*tenant {
	all := slices.Concat(p.tenants, p.hermits, p.lifters, p.readers)
	for _, s := range p.scribes {
		all = append(all, s.tenant)
	}
	for _, x := range p.authors {
		all = append(all, x.tenant)
	}
	for _, x := range p.gardeners {
		all = append(all, x.tenant)
	}
	for _, x := range p.neighbours {
		all = append(all, x.tenant)
	}
	for _, x := range p.watchers {
		if x.holds {
			all = append(all, x.tenant)
		}
	}
	for _, x := range p.strivers() {
		all = append(all, x.tenant)
	}
	return all
}

// strivers returns contenders and workers.
func (p *population) strivers() []*contender {
	all := slices.Clone(p.contenders)
	for _, x := range p.workers {
		all = append(all, x.contender)
	}
	return all
}

func (p *population) sdk() []*tenant {
	all := slices.Concat(p.wanting(), p.mortals, p.vanishers)
	for _, x := range p.heavies { // after the last fault it rests
		all = append(all, x.tenant)
	}
	for _, x := range p.watchers {
		if !x.holds {
			all = append(all, x.tenant)
		}
	}
	return all
}

// unattached returns the clients without a connection.
func (p *population) unattached() []*ghost {
	all := slices.Clone(p.ghosts)
	for _, k := range p.keepers {
		all = append(all, k.ghost)
	}
	return all
}

// names returns the hosts that the plan's faults may concern. Readers are not among them, so that a seed's faults do
// not depend on readers.
func (p *population) names() []string {
	var names []string
	for _, x := range slices.Concat(p.tenants, p.hermits, p.lifters, p.mortals, p.vanishers) {
		names = append(names, x.name)
	}
	for _, g := range p.unattached() {
		names = append(names, g.name)
	}
	return names
}

// callers returns the hosts whose links alone may fail, readers included.
func (p *population) callers() []string {
	names := p.names()
	for _, x := range p.readers {
		names = append(names, x.name)
	}
	for _, s := range p.scribes {
		names = append(names, s.name)
	}
	for _, x := range p.authors {
		names = append(names, x.name)
	}
	for _, r := range p.wanderers {
		names = append(names, r.name)
	}
	for _, x := range p.gardeners {
		names = append(names, x.name)
	}
	for _, x := range p.watchers {
		names = append(names, x.name)
	}
	for _, x := range p.streamers {
		names = append(names, x.name)
	}
	for _, x := range p.strivers() {
		names = append(names, x.name)
	}
	for _, z := range p.zookeepers {
		names = append(names, z.name)
	}
	return names
}

// begin starts all clients. They live until ctx ends.
func (p *population) begin(ctx context.Context) {
	patient, impatient := context.WithCancel(context.WithoutCancel(ctx))
	p.impatient = impatient
	for i, x := range p.tenants {
		others := append(append([]*tenant(nil), p.tenants[:i]...), p.tenants[i+1:]...)
		p.lives.Go(func() { x.live(ctx, others) })
	}
	for _, x := range p.mortals {
		p.lives.Go(func() { x.die(ctx, patient) })
	}
	for _, g := range p.ghosts {
		p.lives.Go(func() { g.haunt(ctx) })
	}
	for _, x := range p.hermits {
		p.lives.Go(func() { x.keepToItself(ctx) })
	}
	for i, x := range p.lifters {
		p.lives.Go(func() { x.lift(ctx, p.lifters[(i+1)%len(p.lifters)]) })
	}
	for _, x := range p.vanishers {
		p.lives.Go(func() { x.vanish(ctx, patient) })
	}
	for _, k := range p.keepers {
		p.lives.Go(func() { k.haunt(ctx) })
	}
	for _, x := range p.readers {
		p.lives.Go(func() { x.study(ctx) })
	}
	for _, s := range p.scribes {
		p.lives.Go(func() { s.work(ctx) })
	}
	for i, x := range p.authors {
		p.lives.Go(func() { x.work(ctx, p.authors[(i+1)%len(p.authors)]) })
	}
	for _, r := range p.wanderers {
		p.lives.Go(func() { r.begin(ctx); r.wander(ctx) })
	}
	for _, x := range p.gardeners {
		p.lives.Go(func() { x.garden(ctx) })
	}
	for _, x := range p.watchers {
		p.lives.Go(func() { x.work(ctx) })
	}
	for _, x := range p.streamers {
		p.lives.Go(func() { x.work(ctx) })
	}
	for _, x := range p.strivers() {
		p.lives.Go(func() { x.work(ctx) })
	}
	for _, z := range p.zookeepers {
		p.lives.Go(func() { z.live(ctx) })
	}
	for _, x := range p.heavies {
		p.lives.Go(func() { x.work(ctx) })
	}
	for _, x := range p.neighbours {
		p.lives.Go(func() { x.work(ctx) })
	}
}

// want notes that from now on every client must be served, except mortals, which may be silent.
func (p *population) want() {
	for _, x := range p.wanting() {
		x.w.record.Add(history.Event{Kind: history.Wants, Who: x.name})
	}
	for _, g := range p.unattached() {
		g.w.record.Add(history.Event{Kind: history.Wants, Who: g.name})
	}
	for _, z := range p.zookeepers {
		z.w.record.Add(history.Event{Kind: history.Wants, Who: z.name})
	}
	for _, x := range p.workers {
		x.expectTurns()
	}
	p.rest()
	for _, x := range p.strivers() {
		close(x.last)
	}
}

// rest ends the heavy clients' work.
func (p *population) rest() {
	for _, x := range p.heavies {
		p.lives.Go(x.conclude)
	}
}

// testify makes each living client record that it lives, and open a session.
func (p *population) testify(ctx context.Context) {
	var all sync.WaitGroup
	for _, x := range p.wanting() {
		all.Go(func() { x.testify(ctx) })
	}
	for _, s := range p.scribes {
		all.Go(func() { s.lookBack(ctx) })
	}
	for _, x := range p.authors {
		all.Go(func() { x.conclude(ctx) })
	}
	for _, x := range p.watchers {
		all.Go(x.conclude)
	}
	for _, x := range p.streamers {
		all.Go(x.conclude)
	}
	if len(p.contenders) > 0 {
		all.Go(func() { p.contenders[0].contest.conclude(ctx, p.contenders) })
	}
	if len(p.workers) > 0 {
		all.Go(func() { p.workers[0].yard.conclude(ctx, p.workers) })
	}
	all.Wait()
}

// wait waits until all clients have finished. The dead get a bounded time to die.
func (p *population) wait() {
	timer := time.AfterFunc(3*recovery, p.impatient)
	defer timer.Stop()
	p.lives.Wait()
}

func (p *population) stop() {
	p.impatient()
	for _, x := range p.sdk() {
		x.stop()
	}
	for _, g := range p.unattached() {
		g.stop()
	}
	for _, r := range p.wanderers {
		r.disconnect()
	}
	for _, x := range p.streamers {
		x.disconnect()
	}
}
