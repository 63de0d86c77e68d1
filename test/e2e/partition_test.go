//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
)

// Ports of a node, as deploy/compose.yaml has them.
const (
	raftPort = 7401
	peerPort = 7402
)

// partition is packets being dropped around some nodes.
type partition struct {
	c     *cluster
	nodes []int
}

// cut drops packets between some nodes and others, all of them and both ways unless flags of the packet cutter say less.
// Connections hang. Clients reach all nodes.
func (c *cluster) cut(some, others []int, flags ...string) *partition {
	c.t.Helper()
	p := &partition{c: c}
	for _, n := range some {
		p.add(n, others, flags...)
	}
	return p
}

// add drops packets around one more node; it must be another one each time.
func (p *partition) add(n int, others []int, flags ...string) {
	p.c.t.Helper()
	args := append([]string{"cut"}, flags...)
	for _, other := range others {
		args = append(args, p.c.addresses(other)...)
	}
	if _, err := p.c.cutter(n, args...); err != nil {
		p.c.t.Fatal(err)
	}
	p.nodes = append(p.nodes, n)
}

// cutter runs the packet cutter in node n's network.
func (c *cluster) cutter(n int, args ...string) (string, error) {
	c.t.Helper()
	return command(nil, append([]string{
		"docker", "run", "--rm", "--network", "container:" + c.container(n), "--cap-add", "NET_ADMIN", "holdfast-cut",
	}, args...)...)
}

// heal ends the partition and shows that it really dropped packets around each node.
func (p *partition) heal() {
	p.c.t.Helper()
	sum := 0
	for _, n := range p.nodes {
		out, err := p.c.cutter(n, "counter")
		if err != nil {
			p.c.t.Fatal(err)
		}
		dropped, err := strconv.Atoi(out)
		if err != nil || dropped == 0 {
			p.c.t.Errorf("the partition dropped %q packets at node %d: it was none", out, n)
		}
		sum += dropped
		if _, err := p.c.cutter(n, "heal"); err != nil {
			p.c.t.Fatal(err)
		}
	}
	count(p.c.t, "packets dropped", "", sum)
}

func direction(way string) string { return "--direction=" + way }
func port(n int) string           { return fmt.Sprintf("--port=%d", n) }
func loss(percent int) string     { return fmt.Sprintf("--loss=%d", percent) }
