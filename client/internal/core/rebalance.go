package core

import (
	"slices"

	"github.com/hashicorp/go-hclog"

	"holdfast/client/internal/route"
	"holdfast/session"
)

// updateServers takes a new list of servers. A client that is on its way because of a former list counts as being at
// the server that it goes to.
func (m *moves) updateServers(servers []string) {
	r := &m.router
	former := r.Servers
	r.Configure(servers)
	m.effects.Learnt = append([]string{}, r.Learnt...)
	if m.cur == nil {
		m.endMove()
		// the next step begins a move, as for every client without a connection
		r.Begun, r.Asked, r.At = false, 0, m.now
		r.Moving = len(m.sessions) > 0 || len(m.opens) > 0
		return
	}
	mine := m.goesTo()
	u := route.PlanUpdate(former, servers, mine)
	local, _ := m.locals()
	stays := local && slices.Contains(servers, mine) // local sessions cannot go along
	if !u.Leaves(m.cfg.Jitter) || stays {
		r.Left = slices.DeleteFunc(r.Left, func(t route.Target) bool {
			return !slices.Contains(servers, t.Server) && !slices.Contains(r.Learnt, t.Server)
		})
		return
	}
	m.endMove()
	m.cur.failing = errRemoved
	order := u.Order(m.cfg.Jitter)
	if slices.Contains(servers, m.cur.Server) {
		if m.cur.failing = errRebalanced; m.readOnly(m.cur) {
			m.cur.failing = session.ErrReadOnly // there is no good node to go back to
		}
		order = slices.DeleteFunc(order, func(s string) bool { return s == m.cur.Server })
	}
	m.effects.log(hclog.Info, "looking for another node", "address", m.cur.Address, "error", m.cur.failing)
	r.Moving, r.Fresh, r.Rounds, r.At = true, false, 0, m.now
	r.Plan(order)
}

// goesTo returns the server that the client is at, or goes to because of a change of the list.
func (m *moves) goesTo() string {
	switch r := &m.router; {
	case !m.cur.dismissed():
		return m.cur.Server
	case m.next != nil:
		return m.next.Server
	case len(m.racing) > 0:
		return m.racing[0].Server
	case len(r.Left) > 0:
		return r.Left[0].Server
	default:
		return m.cur.Server
	}
}
