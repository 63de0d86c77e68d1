package conn

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client/internal/route"
)

// dialNext makes the next attempt to connect when it is due. The first attempt of a round is due at once. Each later
// one is due when the attempt before has failed, or has not connected within the hedge delay.
func (m *Manager) dialNext() {
	r := &m.router
	m.checkRound()
	if at := r.WakesAt(len(m.dialing)); m.candidate != nil || at.IsZero() || m.now.Before(at) {
		return
	}
	if !r.Begun {
		r.Forgive(m.now)
		r.Begin(m.cfg.Jitter, m.Home(), r.Rounds > 0 && route.Silent(m.failure.Last()))
		if m.ReadOnly(m.current) {
			r.Defer(m.current.Server)
		}
	}
	t, ok := r.Pop()
	if !ok {
		return
	}
	within := m.connectWithin(t.Server)
	if r.At = m.now.Add(m.Bound(hedgePart, m.cfg.HedgeDelay)); r.IsDoubtful(t.Server) {
		r.At = m.now
	}
	if t.Address == "" {
		if host, port, named := m.hostName(t.Server); named {
			r.Resolving++
			m.Effects.Lookups = append(m.Effects.Lookups, Lookup{
				Round: r.Round, Server: t.Server, Host: host, Port: port, Within: within,
			})
			return
		}
		t.Address = t.Server
	}
	if m.now.Before(r.NotBefore[t]) || m.isDialing(t) {
		m.continueRound()
		return
	}
	c := m.newConn(t, within)
	m.do(c, Dial)
	m.dialing = append(m.dialing, c)
}

// isDialing reports whether an attempt of a former round at a target is pending.
func (m *Manager) isDialing(t route.Target) bool {
	return slices.ContainsFunc(m.dialing, func(c *Conn) bool { return c.Target == t })
}

// ConnectWithin returns the time limit of an attempt to connect.
func (m *Manager) ConnectWithin() time.Duration { return m.Bound(ConnectPart, m.cfg.ConnectTimeout) }

// connectWithin is ConnectWithin for a server. An address that a node has named and the client never reached gets no
// more than the hedge delay at first, because the address may be of a network that the client is not in.
func (m *Manager) connectWithin(server string) time.Duration {
	within := m.ConnectWithin()
	if failed, doubtful := m.router.Doubtful(server); doubtful {
		within = min(within, m.Bound(hedgePart, m.cfg.HedgeDelay)<<min(failed, maxDoubts))
	}
	return within
}

// maxDoubts bounds how often the client doubles the time for an address that it never reached.
const maxDoubts = 3

// hostName reports whether a server is a host name, which the client resolves before it dials.
func (m *Manager) hostName(server string) (host, port string, named bool) {
	host, port, err := net.SplitHostPort(server)
	if err != nil || !m.cfg.ResolveNames {
		return "", "", false
	}
	_, err = netip.ParseAddr(host)
	return host, port, err != nil
}

// Resolved continues the round with the addresses of a name, in random order. It ignores a lookup of a former round.
func (m *Manager) Resolved(of Lookup, addresses []string, err error) {
	r := &m.router
	if of.Round != r.Round || !r.Begun {
		return
	}
	r.Resolving--
	if err != nil || len(addresses) == 0 {
		if err == nil {
			err = errNoAddress
		}
		r.Failed(of.Server)
		m.attemptFailed(route.Unreachable(of.Server, err))
		return
	}
	m.cfg.Jitter.Shuffle(addresses)
	var targets []route.Target
	for _, a := range addresses[:min(len(addresses), route.MaxAddresses)] {
		targets = append(targets, route.Target{Server: of.Server, Address: net.JoinHostPort(a, of.Port)})
	}
	r.PutBack(targets...)
	r.At = m.now
}

// attemptFailed records a failed attempt and continues the round.
func (m *Manager) attemptFailed(err error) {
	m.failure.Met(err)
	m.router.Others = m.router.Others || route.Hint(err) == 0
	m.continueRound()
}

// continueRound makes the next attempt of the round due now. If no attempt is left, it ends the round.
func (m *Manager) continueRound() {
	r := &m.router
	switch {
	case len(r.Left) > 0:
		r.At = m.now
	case r.Resolving > 0 || len(m.dialing) > 0: // the pending attempts decide the round
	case m.current != nil && errors.Is(m.current.failing, errRebalanced): // the current node serves as well as before
		m.current.failing, r.Fresh = nil, true
		m.stay()
	default:
		m.endRound()
	}
}

// checkRound ends a round that no attempt will end.
func (m *Manager) checkRound() {
	if at := m.roundEndsAt(); !at.IsZero() && !m.now.Before(at) {
		m.endRound()
	}
	if m.candidate == nil && m.router.Dry(len(m.dialing)) {
		m.continueRound()
	}
}

// endRound ends a round in which no node served. The next round begins after a back-off.
func (m *Manager) endRound() {
	r := &m.router
	r.Rounds++
	r.Begun = false
	if denial := m.failure.Denial(); denial != nil && m.current == nil {
		m.handler.Denied(denial)
	}
	m.failure.Ended()
	m.checkLag()
	r.At = m.now.Add(m.backoff(r.Rounds))
	if !r.Others { // each node has named a moment
		r.At = route.Latest(r.At, r.Soonest(m.now))
	}
}

// roundEndsAt returns when a round ends although attempts hang; zero if the attempts decide. Such a round ends when a
// node has answered, which may serve in the next round: after the hedge delay of the newest attempt, doubled with each
// round. A node that answers fast and serves nothing must not keep the client from a node that is far away.
//
// An attempt at the server of the current connection delays nothing, because that connection reports when its node is
// back. Without this rule, a client that left a frozen leader during the election would wait until its new attempt at
// that leader times out.
func (m *Manager) roundEndsAt() (at time.Time) {
	r := &m.router
	if m.candidate != nil || !r.Moving || !r.Begun || len(r.Left) > 0 || r.Resolving > 0 || !m.failure.Answered() ||
		m.current != nil && m.current.dismissed() {
		return time.Time{}
	}
	for _, c := range m.dialing {
		until := c.dialed
		if m.current == nil || m.current.Server != c.Server {
			until = until.Add(m.Bound(hedgePart, m.cfg.HedgeDelay) << min(r.Rounds, maxRounds))
		}
		at = route.Latest(at, until)
	}
	return at
}

// maxRounds bounds how often roundEndsAt doubles its delay: longer than any attempt.
const maxRounds = 8

// checkLag distrusts the index that the client has seen after lagRounds rounds in which every node that answered was
// LAGGING.
func (m *Manager) checkLag() {
	g := &m.lag
	if g.Rounds++; !g.Behind || g.Other {
		g.Rounds = 0
	}
	g.Behind, g.Other = false, false
	if index := m.Effects.Known.Seen; g.Rounds >= lagRounds && m.distrusted != index {
		m.distrusted = index
		m.Log(hclog.Warn, "every node is behind the index that this client has seen: was the cluster restored "+
			"from a backup, or does a server belong to another cluster? Sessions are resumed, reads are refused",
			"index", index)
	}
}

// dialFailed gives up an attempt to connect.
func (m *Manager) dialFailed(c *Conn, err error) {
	m.Log(hclog.Debug, "node cannot be reached", "address", c.Address, "error", err)
	m.do(c, HangUp)
	m.router.Failed(c.Server)
	m.dialing = slices.DeleteFunc(m.dialing, func(other *Conn) bool { return other == c })
	if !m.router.Begun { // the round ended while the attempt hung, and a new round starts after a back-off
		return
	}
	m.attemptFailed(err)
}

// Obstacle returns why no node serves a caller that gives up because of cause; nil if the reason is unknown. If the
// caller gives up before any attempt to connect had an outcome, the obstacle is the silence of a node. Without this
// rule, a caller with less time than one attempt would get no reason.
func (m *Manager) Obstacle(cause error) error {
	last := m.failure.Last()
	if last != nil || m.current != nil || !route.Late(cause) {
		return last
	}
	for _, c := range append(slices.Clone(m.dialing), m.candidate) {
		if c != nil {
			return route.Unreachable(c.Address, route.ErrSlow)
		}
	}
	return nil
}
