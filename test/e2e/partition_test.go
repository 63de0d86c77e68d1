//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"holdfast/test/timeout"
)

// Ports of a node, as in deploy/compose.yaml.
const (
	clientPort = 7400
	raftPort   = 7401
	peerPort   = 7402
)

// partition is the dropping of packets around some nodes.
type partition struct {
	c    *cluster
	cuts []packetCut
}

// packetCut is the dropping of packets around one host, from and to each of others. Each of others is the addresses of
// one host.
type packetCut struct {
	// around says which host, at is its container.
	around, at string
	others     [][]string
	flags      []string
}

// cut drops packets between some nodes and others: all packets in both directions, unless flags of the packet cutter
// say otherwise. Connections hang. Clients reach all nodes.
func (c *cluster) cut(some, others []int, flags ...string) *partition {
	c.t.Helper()
	p := &partition{c: c}
	for _, n := range some {
		p.add(n, others, flags...)
	}
	return p
}

// cutClients drops packets between node n and all clients, which reach it through the gateways of its networks. Nodes
// reach each other.
func (c *cluster) cutClients(n int, flags ...string) *partition {
	c.t.Helper()
	p := &partition{c: c}
	p.drop(packetCut{
		around: service(n), at: c.container(n), others: [][]string{c.gateways(n)},
		flags: append([]string{port(clientPort)}, flags...),
	})
	return p
}

// deafen drops all packets that come to node n, from other nodes and from clients.
func (c *cluster) deafen(n int) *partition {
	c.t.Helper()
	cut := packetCut{
		around: service(n), at: c.container(n), others: [][]string{c.gateways(n)}, flags: []string{direction("in")},
	}
	for _, other := range c.but(n) {
		cut.others = append(cut.others, c.addresses(other))
	}
	p := &partition{c: c}
	p.drop(cut)
	return p
}

// gateways are the addresses through which clients reach node n.
func (c *cluster) gateways(n int) []string {
	c.t.Helper()
	return strings.Fields(
		must(c.t, "docker", "inspect", "-f", "{{range .NetworkSettings.Networks}}{{.Gateway}} {{end}}", c.container(n)),
	)
}

// add drops packets around one more node, a different one each time.
func (p *partition) add(n int, others []int, flags ...string) {
	p.c.t.Helper()
	cut := packetCut{around: service(n), at: p.c.container(n), flags: flags}
	for _, other := range others {
		cut.others = append(cut.others, p.c.addresses(other))
	}
	p.drop(cut)
}

func (p *partition) drop(cut packetCut) {
	p.c.t.Helper()
	args := append([]string{"cut"}, cut.flags...)
	if _, err := cutter(cut.at, append(args, slices.Concat(cut.others...)...)...); err != nil {
		p.c.t.Fatal(err)
	}
	p.cuts = append(p.cuts, cut)
}

// cutter runs the packet cutter in a container's network.
func cutter(container string, args ...string) (string, error) {
	return command(nil, append([]string{
		"docker", "run", "--rm", "--network", "container:" + container, "--cap-add", "NET_ADMIN", "holdfast-cut",
	}, args...)...)
}

// heal ends the partition, and checks that it dropped packets around each node.
func (p *partition) heal() {
	p.c.t.Helper()
	sum := 0
	for _, cut := range p.cuts {
		out, err := cutter(cut.at, "counter")
		timeout.Check(p.c.t, err)
		ways, addresses, err := counted(out)
		timeout.Check(p.c.t, err)
		for way, n := range ways {
			sum += n
			if n == 0 {
				p.c.t.Errorf("%v: no packet that goes %s of %s was dropped:\n%s", cut.flags, way, cut.around, out)
			}
		}
		for _, other := range cut.others {
			hit := slices.ContainsFunc(other, func(ip string) bool { return addresses[ip] > 0 })
			// At one port, or in one direction, two followers may send each other nothing.
			if !hit && len(cut.flags) == 0 {
				p.c.t.Errorf("no packet between %s and %v was dropped:\n%s", cut.around, other, out)
			}
		}
		if _, err := cutter(cut.at, "heal"); err != nil {
			p.c.t.Fatal(err)
		}
	}
	count(p.c.t, "packets dropped", "", sum)
}

// counted adds the packet cutter's counts up, by direction and by address.
func counted(out string) (ways, addresses map[string]int, err error) {
	ways, addresses = map[string]int{}, map[string]int{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, nil, fmt.Errorf("read the packet cutter's counts: bad line %q", line)
		}
		n, err := strconv.Atoi(fields[2])
		if err != nil {
			return nil, nil, err
		}
		ways[fields[0]] += n
		addresses[fields[1]] += n
	}
	if len(ways) == 0 {
		return nil, nil, fmt.Errorf("read the packet cutter's counts: no line")
	}
	return ways, addresses, nil
}

func direction(way string) string { return "--direction=" + way }
func port(n int) string           { return fmt.Sprintf("--port=%d", n) }
func loss(percent int) string     { return fmt.Sprintf("--loss=%d", percent) }
