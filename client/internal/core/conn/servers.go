package conn

import (
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client/internal/route"
	"holdfast/session"
)

// UpdateServers replaces the list of servers. A client that is moving because of a former list counts as being at the
// server that it moves to.
func (m *Manager) UpdateServers(servers []string) {
	r := &m.router
	former := r.Servers
	r.Configure(servers)
	m.Effects.Learnt = append([]string{}, r.Learnt...)
	held := m.needs.Held()
	if m.current == nil {
		m.endMove()
		// the next Advance begins a move, as for every client without a connection
		r.Begun, r.Resolving, r.At = false, 0, m.now
		held = m.needs.Held() // the end of the move may have answered callers
		r.Moving = held.Sessions > 0 || held.Opens > 0
		return
	}
	mine := m.destination()
	u := route.PlanUpdate(former, servers, mine)
	stays := held.Local && slices.Contains(servers, mine) // local sessions cannot move
	if !u.Leaves(m.cfg.Jitter) || stays {
		r.Left = slices.DeleteFunc(r.Left, func(t route.Target) bool {
			return !slices.Contains(servers, t.Server) && !slices.Contains(r.Learnt, t.Server)
		})
		return
	}
	m.endMove()
	m.current.failing = errRemoved
	order := u.Order(m.cfg.Jitter)
	if slices.Contains(servers, m.current.Server) {
		if m.current.failing = errRebalanced; m.ReadOnly(m.current) {
			m.current.failing = session.ErrReadOnly // there is no good node to return to
		}
		order = slices.DeleteFunc(order, func(s string) bool { return s == m.current.Server })
	}
	m.Log(hclog.Info, "looking for another node", "address", m.current.Address, "error", m.current.failing)
	r.Moving, r.Fresh, r.Rounds, r.At = true, false, 0, m.now
	r.Plan(order)
}

// destination returns the server that the client is at, or moves to because the list has changed.
func (m *Manager) destination() string {
	switch r := &m.router; {
	case !m.current.dismissed():
		return m.current.Server
	case m.candidate != nil:
		return m.candidate.Server
	case len(m.dialing) > 0:
		return m.dialing[0].Server
	case len(r.Left) > 0:
		return r.Left[0].Server
	default:
		return m.current.Server
	}
}

// A client learns the addresses of nodes beyond its configuration: it asks the current node for the members of the
// cluster. The client asks right after its first connect, and some time after each later move, because thousands of
// clients may have moved at the same moment. After that it asks rarely. A round tries these addresses after the
// configured ones.
const (
	// AskMembersEvery is how often a client asks, askAfterMove the longest wait after a move.
	AskMembersEvery = 5 * time.Minute
	askAfterMove    = 20 * time.Second
	// AskMembersAgain is how long a client waits after a question without an answer.
	AskMembersAgain = time.Minute
)

// askMembersSoon makes the client ask the new current node.
func (m *Manager) askMembersSoon() {
	switch {
	case m.cfg.OnlyServers:
	case m.membersKnown:
		m.askMembersAt = route.Earliest(m.askMembersAt, m.now.Add(m.cfg.Jitter.Within(askAfterMove)))
	default:
		m.askMembersAt = m.now
	}
}

// askMembers asks for the members of the cluster when that is due.
func (m *Manager) askMembers() {
	if at := m.membersDueAt(); at.IsZero() || m.now.Before(at) {
		return
	}
	m.askMembersAt = m.now.Add(AskMembersEvery + m.cfg.Jitter.Within(AskMembersEvery))
	m.do(m.current, AskMembers)
}

// membersDueAt returns when the client asks for the members next; zero for never. An idle client does not ask.
func (m *Manager) membersDueAt() time.Time {
	if m.current == nil || !m.current.up || m.needs.Idle() {
		return time.Time{}
	}
	return m.askMembersAt
}

// RecordMembers records the client addresses of the members of the cluster.
func (m *Manager) RecordMembers(addresses []string) {
	m.membersKnown = true
	m.router.Replace(addresses)
	m.Effects.Learnt = append([]string{}, m.router.Learnt...)
}

// MembersFailed has the client ask for the members again.
func (m *Manager) MembersFailed() {
	m.askMembersAt = route.Earliest(m.askMembersAt, m.now.Add(AskMembersAgain+m.cfg.Jitter.Within(AskMembersAgain)))
}
