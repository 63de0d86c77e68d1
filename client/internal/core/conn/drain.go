package conn

import (
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// draining handles the notice that a node is being drained (Q1 drain), or has a full disk (O5 full disks). The client
// moves at once, in the order that the node names. The node serves the sessions until another node does, so no promise
// is lost. A client with local sessions stays: they would end at another node, and the client has one connection.
func (m *Manager) draining(c *Conn, news *holdfastv1.Draining) {
	r := &m.router
	m.avoid(c, news.GetTry())
	if c != m.current || c.failing != nil && !c.dismissed() {
		return
	}
	why := &session.DrainingError{DiskFull: news.GetDiskFull()}
	if m.needs.Held().Local {
		m.Log(hclog.Info, "staying with a node for the sake of local sessions", "address", c.Address, "error", why)
		return
	}
	m.Log(hclog.Info, "looking for another node", "address", c.Address, "error", why)
	m.endMove()
	c.failing = why
	r.Moving, r.Fresh, r.Rounds, r.At = true, false, 0, m.now
	r.Plan(m.drainOrder(c, news.GetTry()))
}

// drainOrder returns the order of a round that leaves a drained node: the addresses that the node names, then all
// others, and the node itself last.
func (m *Manager) drainOrder(c *Conn, try []string) []string {
	r := &m.router
	known := slices.Concat(r.Servers, r.Learnt)
	var order []string
	for _, address := range try {
		if address != c.Server && slices.Contains(known, address) && !slices.Contains(order, address) {
			order = append(order, address)
		}
	}
	if r.Spread != nil {
		r.Spread(order)
	}
	rest := slices.DeleteFunc(known, func(s string) bool { return s == c.Server || slices.Contains(order, s) })
	m.cfg.Jitter.Shuffle(rest)
	return append(append(order, rest...), c.Server)
}

// avoid has the client try the node of c last for a while, and adds the addresses that the node names instead.
func (m *Manager) avoid(c *Conn, try []string) {
	if !m.cfg.OnlyServers {
		m.router.Learn(try)
	}
	m.router.Avoid(c.Server, m.now.Add(avoidFor))
}

// drainingEnded handles the news that the node of c stays. A client that has not moved stays too.
func (m *Manager) drainingEnded(c *Conn) {
	m.router.Avoid(c.Server, time.Time{})
	if c != m.current || !errors.Is(c.failing, session.ErrDraining) {
		return
	}
	if m.candidate != nil && !m.candidate.Window.Defers() {
		return // another node is about to serve
	}
	c.failing, m.router.Fresh = nil, true
	m.stay()
}

// Refused records what a refusal reveals about nodes: where the leader is, and that a drained node accepts no sessions.
func (m *Manager) Refused(c *Conn, err error) {
	if other, ok := errors.AsType[*session.NotLeaderError](err); ok &&
		(!m.cfg.OnlyServers || slices.Contains(m.router.Servers, other.Address)) {
		m.router.Prefer(other.Address)
	}
	if drained, ok := errors.AsType[*session.DrainingError](err); ok {
		m.avoid(c, drained.Try)
	}
}
