package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"holdfast/test/sim/history"
)

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

// want notes that everybody but the mortals, who may be silent, has to be served from now on.
func (p *population) want() {
	for _, x := range p.tenants {
		x.w.record.Add(history.Event{Kind: history.Wants, Who: x.name})
	}
	for _, g := range p.ghosts {
		g.w.record.Add(history.Event{Kind: history.Wants, Who: g.name})
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
