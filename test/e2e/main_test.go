//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// E2E=full runs everything. Otherwise the tests leave out what not every change needs.
var full = os.Getenv("E2E") == "full"

// clusters are shared by tests that leave them unchanged.
var clusters pool

func TestMain(m *testing.M) {
	if code, is := work(); is {
		os.Exit(code)
	}
	code := m.Run()
	clusters.close()
	if err := results.write(os.Getenv("E2E_FIGURES")); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		code = 1
	}
	os.Exit(code)
}

// pool keeps clusters between tests: starting a cluster takes as long as a short test.
type pool struct {
	mu sync.Mutex
	// idle clusters serve, and hold no session. taken are the ports of all running clusters. Both are guarded by mu.
	idle  []*cluster
	taken map[int]bool
}

// take returns an idle cluster, or nil.
func (p *pool) take(nodes int) *cluster {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range p.idle {
		if c.nodes == nodes {
			p.idle = append(p.idle[:i:i], p.idle[i+1:]...)
			return c
		}
	}
	return nil
}

func (p *pool) give(c *cluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
}

// claim reserves ports, so that they are not chosen twice.
func (p *pool) claim(ports int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[ports] {
		return false
	}
	if p.taken == nil {
		p.taken = make(map[int]bool)
	}
	p.taken[ports] = true
	return true
}

// close removes the remaining clusters when all tests are done.
func (p *pool) close() {
	var wg sync.WaitGroup
	for _, c := range p.idle {
		wg.Go(func() {
			if err := c.remove(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	wg.Wait()
}
