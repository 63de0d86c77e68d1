// Package simnet is a network inside one process, for whole clusters in a testing/synctest bubble: hosts with names, TCP-like
// connections between them, and faults. A link, from one host to another, can be cut: its bytes hang, as behind a firewall
// that drops packets, and nobody is told. A host can be paused, or killed. It starts no goroutine, so it cannot leak one.
package simnet

import (
	"fmt"
	"sync"
	"time"
)

// Network is the wires. Safe for concurrent use.
type Network struct {
	latency func(from, to string) time.Duration

	mu        sync.Mutex
	ports     map[string]*listener // guarded by mu; by "host:port"
	conns     map[*conn]struct{}   // guarded by mu; ends that are not closed
	cut       map[link]int         // guarded by mu; how many cuts lie on it
	paused    map[string]int       // guarded by mu; how many pauses lie on it
	lives     map[string]*Host     // guarded by mu; the present life of a host
	ephemeral int                  // guarded by mu
	held      map[link]int         // guarded by mu
	changed   chan struct{}        // guarded by mu; closed and replaced when a link, a listener or a host changes
}

// link is one direction between two hosts.
type link struct{ from, to string }

// New returns a network whose links take latency(from, to) one way; nil is none.
func New(latency func(from, to string) time.Duration) *Network {
	if latency == nil {
		latency = func(string, string) time.Duration { return 0 }
	}
	return &Network{
		latency: latency,
		ports:   make(map[string]*listener),
		conns:   make(map[*conn]struct{}),
		cut:     make(map[link]int),
		paused:  make(map[string]int),
		lives:   make(map[string]*Host),
		held:    make(map[link]int),
		changed: make(chan struct{}),
	}
}

// Host returns a new life of the host called name, killing the former one if it lives.
func (n *Network) Host(name string) *Host {
	n.Kill(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	h := &Host{net: n, name: name, dead: make(chan struct{})}
	n.lives[name] = h
	return h
}

// Cut stops what from sends to to: it hangs until Heal. The other direction is another link. Cuts of one link add up.
func (n *Network) Cut(from, to string) { n.set(func() { n.cut[link{from, to}]++ }) }

// Heal undoes one Cut; after the last one what hung is delivered.
func (n *Network) Heal(from, to string) { n.set(func() { n.cut[link{from, to}]-- }) }

// Pause stops everything from and to a host, until Resume, which delivers it. What the host does by itself goes on.
func (n *Network) Pause(host string) { n.set(func() { n.paused[host]++ }) }

// Resume undoes one Pause.
func (n *Network) Resume(host string) { n.set(func() { n.paused[host]-- }) }

// Kill ends a host's life: its listeners and connections close, and its Host is of no more use. Those on the other ends
// hear of it as fast as their links allow.
func (n *Network) Kill(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.lives[host]
	if h == nil {
		return
	}
	delete(n.lives, host)
	close(h.dead)
	for _, l := range n.ports {
		if l.host == h {
			n.closeListener(l)
		}
	}
	for c := range n.conns {
		if c.host == h {
			n.closeConn(c, errReset)
		}
	}
	n.announce()
}

// Held returns how many writes and dials a cut or a pause has held back on the link so far: the proof that a fault hit
// something.
func (n *Network) Held(from, to string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.held[link{from, to}]
}

// HeldInAll returns the sum of Held over all links.
func (n *Network) HeldInAll() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	sum := 0
	for _, held := range n.held {
		sum += held
	}
	return sum
}

// Conns returns the number of connection ends that are open.
func (n *Network) Conns() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}

func (n *Network) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	n.announce()
}

// announce wakes all who wait for a link, a listener or a byte. The caller holds mu.
func (n *Network) announce() {
	close(n.changed)
	n.changed = make(chan struct{})
	for c := range n.conns {
		c.in.announce()
		c.out.announce()
	}
}

// blocked reports whether l delivers nothing now. The caller holds mu.
func (n *Network) blocked(l link) bool {
	return n.cut[l] > 0 || n.paused[l.from] > 0 || n.paused[l.to] > 0
}

// hold counts a write or a dial on a blocked link. The caller holds mu.
func (n *Network) hold(l link) bool {
	if !n.blocked(l) {
		return false
	}
	n.held[l]++
	return true
}

// Addr is an address in a Network: "host:port".
type Addr string

// Network returns "sim".
func (Addr) Network() string { return "sim" }

// String returns host:port.
func (a Addr) String() string { return string(a) }

func ephemeral(host string, port int) Addr { return Addr(fmt.Sprintf("%s:%d", host, port)) }
