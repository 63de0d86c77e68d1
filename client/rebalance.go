package client

import (
	"errors"
	"fmt"
	"slices"

	"holdfast/client/internal/route"
	"holdfast/session"
)

// Why a node is left without any fault of its own.
var (
	errRebalanced = errors.New("other servers were added: this one has its share of clients without this one")
	errRemoved    = errors.New("server was removed from the list")
)

// UpdateServers replaces the configured servers, at most [MaxServers] in the form of [Config].Endpoints, while the
// client runs. Clients that do so with the same list end up evenly spread, without knowing of each other, and as few of
// them move as that takes: of 3 servers becoming 5, 40 % of the clients move, all to the new ones; of 5 becoming 3, the
// clients of the two that go (ZooKeeper's section 10.5 of rules; see planUpdate). A client that moves is served by its
// former node until another one serves it. One that is not connected looks for a node among the new servers at once.
// Addresses learnt from nodes stay, but for those of removed servers. The error is a [session.FieldError] or
// [session.ErrClosed]. Of calls at the same time one takes effect last.
func (c *Client) UpdateServers(servers []string) error {
	if err := checkEndpoints(servers); err != nil {
		return fmt.Errorf("update servers: %w", err)
	}
	servers = slices.Clone(servers)
	c.mu.Lock()
	over, l := c.closed, c.loop
	c.servers = servers
	c.mu.Unlock()
	if over || l != nil && !l.post(func() { l.updateServers(servers) }) {
		return fmt.Errorf("update servers: %w", session.ErrClosed)
	}
	return nil
}

// updateServers takes a new list. While a client is on its way because of a former one, its server is the one it goes
// to.
func (l *loop) updateServers(servers []string) {
	m := &l.router
	former := m.Servers
	m.Servers = servers
	m.Learnt = slices.DeleteFunc(m.Learnt, func(a string) bool {
		return slices.Contains(former, a) || slices.Contains(servers, a)
	})
	if l.cur == nil {
		l.endMove()
		// the next step begins a move: a client without a connection always does
		m.Begun, m.Asked, m.At = false, 0, l.now
		m.Moving = len(l.sessions) > 0 || len(l.opens) > 0
		return
	}
	mine := l.goesTo()
	u := route.PlanUpdate(former, servers, mine)
	local, _ := l.locals()
	stays := local && slices.Contains(servers, mine) // local sessions cannot go along
	if !u.Leaves(l.jitter) || stays {
		m.Left = slices.DeleteFunc(m.Left, func(t route.Target) bool {
			return !slices.Contains(servers, t.Server) && !slices.Contains(m.Learnt, t.Server)
		})
		return
	}
	l.endMove()
	l.cur.failing = errRemoved
	order := u.Order(l.jitter)
	if slices.Contains(servers, l.cur.Server) {
		if l.cur.failing = errRebalanced; l.readOnly(l.cur) {
			l.cur.failing = session.ErrReadOnly // there is no going back to where it was well
		}
		order = slices.DeleteFunc(order, func(s string) bool { return s == l.cur.Server })
	}
	l.logger.Info("looking for another node", "address", l.cur.Address, "error", l.cur.failing)
	m.Moving, m.Fresh, m.Rounds, m.At = true, false, 0, l.now
	m.Plan(order)
}

// goesTo returns the server that the client is at, or goes to because of a change of the list.
func (l *loop) goesTo() string {
	switch m := &l.router; {
	case !l.cur.dismissed():
		return l.cur.Server
	case l.next != nil:
		return l.next.Server
	case len(l.racing) > 0:
		return l.racing[0].Server
	case len(m.Left) > 0:
		return m.Left[0].Server
	default:
		return l.cur.Server
	}
}

// dismissed reports that the client leaves c although c may serve well.
func (c *conn) dismissed() bool {
	return errors.Is(c.failing, errRebalanced) || errors.Is(c.failing, errRemoved)
}
