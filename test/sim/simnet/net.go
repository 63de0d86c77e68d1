// Package simnet is a network inside one process, for whole clusters in a testing/synctest bubble: hosts with names,
// TCP-like connections between them, and faults. A link leads from one host to another. A cut link's bytes hang without
// an error at either end, as behind a firewall that drops packets. A link can also be slow, or thin, or scatter the
// messages of different connections in time. A host can be paused, stuck or killed. The network starts no goroutine, so
// it cannot leak one.
package simnet

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Network is all links and hosts. Safe for concurrent use.
type Network struct {
	latency func(from, to string) time.Duration

	mu        sync.Mutex
	ports     map[string]*listener // guarded by mu; by "host:port"
	conns     map[*conn]struct{}   // guarded by mu; ends that are not closed
	cut       map[link]int         // guarded by mu; the number of cuts
	choked    map[string]int       // guarded by mu; the number of chokes, by "host:port"
	paused    map[string]int       // guarded by mu; the number of pauses
	stuck     map[string]int       // guarded by mu; how many times a host is stuck
	slow      map[link]slowness    // guarded by mu
	thin      map[link]thinness    // guarded by mu
	refused   map[link]int         // guarded by mu; the number of refusals
	rand      *rand.Rand           // guarded by mu; for scattered links
	lives     map[string]*Host     // guarded by mu; the present life of a host
	ephemeral int                  // guarded by mu
	held      map[link]int         // guarded by mu
	changed   chan struct{}        // guarded by mu; closed and replaced when a link, a listener or a host changes
}

// link is one direction between two hosts.
type link struct{ from, to string }

// slowness is the time that a write takes beyond the link's latency: more, and up to scatter besides.
type slowness struct{ more, scatter time.Duration }

// New returns a network whose links take latency(from, to) in one direction; nil means 0.
func New(latency func(from, to string) time.Duration) *Network {
	if latency == nil {
		latency = func(string, string) time.Duration { return 0 }
	}
	return &Network{
		latency: latency,
		ports:   make(map[string]*listener),
		conns:   make(map[*conn]struct{}),
		cut:     make(map[link]int),
		choked:  make(map[string]int),
		paused:  make(map[string]int),
		stuck:   make(map[string]int),
		slow:    make(map[link]slowness),
		thin:    make(map[link]thinness),
		refused: make(map[link]int),
		rand:    rand.New(rand.NewPCG(1, 1)),
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

// Seed seeds the random delays of scattered links.
func (n *Network) Seed(seed uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rand = rand.New(rand.NewPCG(seed, seed))
}

// Cut stops the direction from one host to another: its bytes hang until Heal. The other direction is another link.
// Cuts of one link add up.
func (n *Network) Cut(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[link{from, to}]++
}

// Heal undoes one Cut. After the last Heal, the hanging bytes are delivered.
func (n *Network) Heal(from, to string) { n.free(func() { n.cut[link{from, to}]-- }) }

// Refuse makes every dial from one host to another fail as if no process listened there, until Admit. Open connections
// continue.
func (n *Network) Refuse(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused[link{from, to}]++
}

// Admit undoes one Refuse.
func (n *Network) Admit(from, to string) { n.free(func() { n.refused[link{from, to}]-- }) }

// Choke stops both directions of all connections to one port of a host, until Unchoke. Connections to its other ports
// continue.
func (n *Network) Choke(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.choked[address]++
}

// Unchoke undoes one Choke.
func (n *Network) Unchoke(address string) { n.free(func() { n.choked[address]-- }) }

// Pause holds everything from and to a host back until Resume, which delivers it. The host itself continues.
func (n *Network) Pause(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paused[host]++
}

// Resume undoes one Pause.
func (n *Network) Resume(host string) { n.free(func() { n.paused[host]-- }) }

// Stick makes a host read nothing until Unstick. Writers to it soon wait. Its own messages go out.
func (n *Network) Stick(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stuck[host]++
}

// Unstick undoes one Stick.
func (n *Network) Unstick(host string) { n.free(func() { n.stuck[host]-- }) }

// Slow makes each write on a link slower, by more and by up to scatter in addition, drawn for each write. Bytes of one
// connection stay in order; bytes of several connections do not. Slownesses of a link add up, and negative values undo
// them.
func (n *Network) Slow(from, to string, more, scatter time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := link{from, to}
	s := n.slow[l]
	n.slow[l] = slowness{s.more + more, s.scatter + scatter}
}

// thinness is the bits that a link carries in a second, and the bytes that a connection buffers before a writer waits.
type thinness struct{ bits, buffer int }

// packet is the smallest part that a thin link carries at once: a few TCP packets.
const packet = 4 * 1460

// Thin limits a link to the given bits a second, shared by its connections, and gives each connection a buffer. A write
// ends when the buffer has accepted it, long before it arrives. As in a kernel, a full buffer accepts nothing until a
// third of it is free. Thin affects connections that are made afterwards.
func (n *Network) Thin(from, to string, bits, buffer int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.thin[link{from, to}] = thinness{bits, buffer}
}

// Reset resets all connections between two hosts. Both ends notice at once, and bytes in flight are lost. It returns
// the number of connections.
func (n *Network) Reset(one, other string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	reset := 0
	for c := range n.conns {
		if c.in.broken != nil || c.out.link != (link{one, other}) && c.out.link != (link{other, one}) {
			continue
		}
		reset++
		for _, end := range []*conn{c, c.peer} {
			end.in.lose(errReset)
		}
	}
	return reset
}

// Kill ends a host's life. Its listeners and connections close, and its Host is unusable. The other ends notice as soon
// as their links allow.
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

// Held returns how many writes and dials faults have held back on the link so far: the proof that a fault hit.
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

// Conns returns the number of open connection ends.
func (n *Network) Conns() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}

func (n *Network) free(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	n.announce()
}

// announce wakes everything that waits for a link, a listener or a byte. The caller holds mu.
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

// hold counts a write or a dial on a link, for a port, that is blocked, choked or slow, or that leads to a stuck host.
// The caller holds mu.
func (n *Network) hold(l link, port string) bool {
	if !n.blocked(l) && n.choked[port] == 0 && n.stuck[l.to] == 0 && n.slow[l] == (slowness{}) {
		return false
	}
	n.held[l]++
	return true
}

// takes returns how long a write on l takes now. The caller holds mu.
func (n *Network) takes(l link) time.Duration {
	d := n.latency(l.from, l.to)
	if s := n.slow[l]; s != (slowness{}) {
		d += s.more
		if s.scatter > 0 {
			d += time.Duration(n.rand.Int64N(int64(s.scatter)))
		}
	}
	return d
}

// Addr is an address in a Network: "host:port".
type Addr string

// Network returns "sim".
func (Addr) Network() string { return "sim" }

// String returns host:port.
func (a Addr) String() string { return string(a) }

func ephemeral(host string, port int) Addr { return Addr(fmt.Sprintf("%s:%d", host, port)) }
