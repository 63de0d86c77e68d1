package core

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
)

// advance makes the next attempt to connect when it is due. The first attempt of a round is due at once. Each other one
// is due when the attempt before it has failed, or has not connected within the hedge delay.
func (m *moves) advance() {
	r := &m.router
	m.checkRound()
	if at := r.WakesAt(len(m.racing)); m.next != nil || at.IsZero() || m.now.Before(at) {
		return
	}
	if !r.Begun {
		r.Forgive(m.now)
		r.Begin(m.cfg.Jitter, m.homing(), r.Rounds > 0 && route.Silent(m.trouble.Last()))
		if m.readOnly(m.cur) {
			r.PutOff(m.cur.Server)
		}
	}
	t, ok := r.Pop()
	if !ok {
		return
	}
	within := m.connectWithin(t.Server)
	if r.At = m.now.Add(m.bound(hedgePart, m.cfg.HedgeDelay)); r.HoldsUpNothing(t.Server) {
		r.At = m.now
	}
	if t.Address == "" {
		if host, port, named := m.resolves(t.Server); named {
			m.resolve(t.Server, host, port, within)
			return
		}
		t.Address = t.Server
	}
	if m.now.Before(r.NotBefore[t]) || m.races(t) {
		m.tryOn()
		return
	}
	c := &Conn{Target: t, window: window.New(), dialled: m.now, deadline: m.now.Add(within)}
	m.effects.Actions = append(m.effects.Actions, Action{Conn: c, Do: Dial})
	m.racing = append(m.racing, c)
}

// races reports whether an attempt at a target is under way since a former round.
func (m *moves) races(t route.Target) bool {
	return slices.ContainsFunc(m.racing, func(c *Conn) bool { return c.Target == t })
}

// connectWithin returns how long an attempt to connect may take. An address that was learnt and never reached gets no
// more than the hedge delay at first, because it may be of a network that this client is not in.
func (m *moves) connectWithin(server string) time.Duration {
	within := m.bound(connectPart, m.cfg.ConnectTimeout)
	if failed, doubtful := m.router.Doubtful(server); doubtful {
		within = min(within, m.bound(hedgePart, m.cfg.HedgeDelay)<<min(failed, maxDoubts))
	}
	return within
}

// maxDoubts bounds how often the time for an address that was never reached is doubled.
const maxDoubts = 3

// resolves reports whether a server is a host name, which is looked up before the client dials it.
func (m *moves) resolves(server string) (host, port string, named bool) {
	host, port, err := net.SplitHostPort(server)
	if err != nil || !m.cfg.ResolveNames {
		return "", "", false
	}
	_, err = netip.ParseAddr(host)
	return host, port, err != nil
}

// resolve looks up the addresses of a server's name. The round goes on with them, in random order.
func (m *moves) resolve(server, host, port string, within time.Duration) {
	m.router.Asked++
	m.effects.Lookups = append(m.effects.Lookups, Lookup{
		Round: m.router.Round, Server: server, Host: host, Port: port,
		Within: within,
	})
}

// resolved takes the addresses of a name. It ignores those of a former round.
func (m *moves) resolved(of Lookup, addresses []string, err error) {
	r := &m.router
	if of.Round != r.Round || !r.Begun {
		return
	}
	r.Asked--
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

// attemptFailed goes on with the rest of the round. After the last attempt of a round comes a back-off.
func (m *moves) attemptFailed(err error) {
	m.trouble.Met(err)
	m.router.Others = m.router.Others || route.Hint(err) == 0
	m.tryOn()
}

// tryOn makes the next attempt of the round due now. When nothing is left of the round, it ends the round with a
// back-off.
func (m *moves) tryOn() {
	r := &m.router
	switch {
	case len(r.Left) > 0:
		r.At = m.now
	case r.Asked > 0 || len(m.racing) > 0: // their outcome decides the round
	case m.cur != nil && errors.Is(m.cur.failing, errRebalanced): // the present node serves as well as before
		m.cur.failing, r.Fresh = nil, true
		m.stay()
	default:
		m.endRound()
	}
}

// checkRound ends a round that no attempt will end.
func (m *moves) checkRound() {
	if at := m.roundEndsAt(); !at.IsZero() && !m.now.Before(at) {
		m.endRound()
	}
	if m.next == nil && m.router.Dry(len(m.racing)) {
		m.tryOn()
	}
}

// endRound ends a round in which no node served. The next one comes after a back-off.
func (m *moves) endRound() {
	r := &m.router
	r.Rounds++
	r.Begun = false
	if denial := m.trouble.Denial(); denial != nil && m.cur == nil {
		m.deny(denial)
	}
	m.trouble.Ended()
	m.endLagRound()
	r.At = m.now.Add(m.backoff(r.Rounds))
	if !r.Others { // all nodes have named a moment
		r.At = route.Latest(r.At, r.Soonest(m.now))
	}
}

// roundEndsAt returns when a round ends beside attempts that hang, zero when they decide it. It ends if a node has
// answered, which may serve in the next round: after the hedge delay of the newest attempt, which doubles with each
// round. A node that answers fast and serves nothing must not keep the client from one that is far away. An attempt at
// the server of the present connection holds up nothing: that connection tells when its node comes back. Without this a
// client that left a frozen leader during the election would wait until its attempt to reach that leader anew is given
// up.
func (m *moves) roundEndsAt() (at time.Time) {
	r := &m.router
	if m.next != nil || !r.Moving || !r.Begun || len(r.Left) > 0 || r.Asked > 0 || !m.trouble.Answered() ||
		m.cur != nil && m.cur.dismissed() {
		return time.Time{}
	}
	for _, c := range m.racing {
		until := c.dialled
		if m.cur == nil || m.cur.Server != c.Server {
			until = until.Add(m.bound(hedgePart, m.cfg.HedgeDelay) << min(r.Rounds, maxRounds))
		}
		at = route.Latest(at, until)
	}
	return at
}

// maxRounds bounds how often the time of a round beside attempts that hang is doubled, to more than any attempt takes.
const maxRounds = 8

// endLagRound judges a round in which no node served. After lagRounds rounds in which every node that answered was
// LAGGING, the client distrusts the index that it has seen.
func (m *moves) endLagRound() {
	g := &m.lag
	if g.Rounds++; !g.Behind || g.Other {
		g.Rounds = 0
	}
	g.Behind, g.Other = false, false
	if index := m.effects.Seen; g.Rounds >= lagRounds && m.distrusted != index {
		m.distrusted = index
		m.effects.log(hclog.Warn, "every node is behind what this client was told: was the cluster restored from a "+
			"backup, or is a server of another one? Sessions are resumed all the same, reads are refused",
			"index", index)
	}
}

// failedRacing gives up an attempt to connect.
func (m *moves) failedRacing(c *Conn, err error) {
	m.effects.log(hclog.Debug, "node cannot be reached", "address", c.Address, "error", err)
	m.effects.hangUp(c)
	m.router.Failed(c.Server)
	m.racing = slices.DeleteFunc(m.racing, func(other *Conn) bool { return other == c })
	if !m.router.Begun { // its round ended beside it, and the next one is due after a back-off
		return
	}
	m.attemptFailed(err)
}

// stood returns what stood in the way of a caller that gives up because of cause. While no attempt to connect has had
// an outcome, that is the silence of a node, if the caller's time is over. Without this, a caller with less time than
// one attempt may take is not told that no node was reached.
func (m *moves) stood(cause error) error {
	last := m.trouble.Last()
	if last != nil || m.cur != nil || !route.Late(cause) {
		return last
	}
	for _, c := range append(slices.Clone(m.racing), m.next) {
		if c != nil {
			return route.Unreachable(c.Address, route.ErrSlow)
		}
	}
	return nil
}
