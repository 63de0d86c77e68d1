package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"
)

const (
	// maxLearnt bounds the addresses learnt from nodes; the oldest is forgotten.
	maxLearnt = 16
	// maxRacing bounds the attempts to connect, and to resolve a name, that are under way at a time; the next one waits for
	// one of them to end.
	maxRacing = 8
	// maxAddresses is how many addresses of one name are tried in a round.
	maxAddresses = 64
)

// target is where an attempt goes: a server as it was configured or learnt, and one of its addresses; empty while its name
// is not resolved yet.
type target struct{ server, address string }

// mover chooses where to go. It is a part of the loop.
type mover struct {
	servers []string // configured
	learnt  []string // told by nodes
	last    string   // served most recently: tried last
	// spread, when set, sorts servers so that the connections of a pool come to different ones.
	spread func(servers []string)

	moving bool
	first  string // tried before the others of the round
	begun  bool   // there is a round, and left, asked and what races is of it
	left   []target
	asked  int    // names that are being resolved
	round  uint64 // numbers the rounds: names resolved for a former one are of no use
	rounds int    // that came to nothing, in a row
	at     time.Time
	// notBefore is when those want to be asked again that refused for now; others is set when a round met a node that did not.
	notBefore map[target]time.Time
	others    bool
	// fresh: a node has served something since the last move began, so the next move begins a new row of rounds.
	fresh bool
	// refused: a node has said that it is read-only since a node has served anything.
	refused bool
	lag     lag
}

// begin starts a round over all servers: the configured ones in random order, those learnt, and the one that served last,
// sooner if home says so. Names are resolved again in each round, when their turn comes.
func (m *mover) begin(d *dice, home homing) {
	servers, learnt := slices.Clone(m.servers), slices.Clone(m.learnt)
	d.shuffle(servers)
	d.shuffle(learnt)
	all := append(servers, learnt...)
	i := slices.Index(all, m.last)
	if i >= 0 && home == homeOnly {
		m.plan([]string{m.last})
		return
	}
	if i >= 0 {
		all = slices.Delete(all, i, i+1)
	}
	if m.spread != nil {
		m.spread(all)
	}
	switch {
	case i >= 0 && home == homeFirst:
		all = slices.Insert(all, 0, m.last)
	case i >= 0:
		all = append(all, m.last)
	}
	m.plan(all)
}

// plan starts a round over servers, in their order.
func (m *mover) plan(servers []string) {
	m.begun, m.left, m.asked, m.others = true, nil, 0, false
	m.round++
	for _, s := range servers {
		m.left = append(m.left, target{server: s})
	}
}

// learn adds addresses that a node told.
func (m *mover) learn(addresses []string) {
	for _, a := range addresses {
		_, port, err := net.SplitHostPort(a)
		if err != nil || port == "" || slices.Contains(m.servers, a) || slices.Contains(m.learnt, a) {
			continue
		}
		m.learnt = append(m.learnt, a)
		if len(m.learnt) > maxLearnt {
			m.learnt = slices.Delete(m.learnt, 0, 1)
		}
	}
}

// prefer has address tried next, if it has not been tried in this round: two nodes that name each other get no more
// attempts than others.
func (m *mover) prefer(address string) {
	m.learn([]string{address})
	m.first = address
}

// pop returns what is tried next; false when everything of the round is under way or was tried.
func (m *mover) pop() (target, bool) {
	if len(m.left) == 0 {
		return target{}, false
	}
	i := max(slices.IndexFunc(m.left, func(t target) bool { return t.server == m.first }), 0)
	t := m.left[i]
	m.left = slices.Delete(m.left, i, i+1)
	m.first = ""
	return t, true
}

// putOff has a server tried last.
func (m *mover) putOff(server string) {
	if i := slices.IndexFunc(m.left, func(t target) bool { return t.server == server }); i >= 0 {
		m.left = append(slices.Delete(m.left, i, i+1), target{server: server})
	}
}

// putBack has targets tried next: they were given up for another one, or are the addresses of a name.
func (m *mover) putBack(targets ...target) { m.left = slices.Insert(m.left, 0, targets...) }

// wakesAt returns when the next attempt is due, given how many connections race; zero when it waits for something else.
func (m *mover) wakesAt(racing int) time.Time {
	if !m.moving || m.begun && len(m.left) == 0 || m.asked+racing >= maxRacing {
		return time.Time{}
	}
	return m.at
}

// resolves reports whether a server has a name that must be resolved before it can be dialled.
func (l *loop) resolves(server string) (host, port string, named bool) {
	host, port, err := net.SplitHostPort(server)
	if err != nil || l.cfg.Resolve == nil {
		return "", "", false
	}
	_, err = netip.ParseAddr(host)
	return host, port, err != nil
}

// advance makes the next attempt when it is due: the first of a round at once, and each other one when the one before has
// failed, or has not connected within the hedge delay.
func (l *loop) advance(ctx context.Context) {
	m := &l.mover
	if at := m.wakesAt(len(l.racing)); l.next != nil || at.IsZero() || l.now.Before(at) {
		return
	}
	if !m.begun {
		m.begin(l.dice, l.homing())
		if l.readOnly(l.cur) {
			m.putOff(l.cur.server)
		}
	}
	t, ok := m.pop()
	if !ok {
		return
	}
	m.at = l.now.Add(l.bound(hedgePart, l.cfg.HedgeDelay))
	if t.address == "" {
		if host, port, named := l.resolves(t.server); named {
			l.resolve(ctx, t.server, host, port)
			return
		}
		t.address = t.server
	}
	if l.now.Before(m.notBefore[t]) {
		l.tryOn()
		return
	}
	c := l.dial(ctx, t)
	c.dialled, c.deadline = l.now, l.now.Add(l.bound(connectPart, l.cfg.ConnectTimeout))
	l.racing = append(l.racing, c)
}

// resolve asks for the addresses of a server's name, which then are tried next, in random order.
func (l *loop) resolve(ctx context.Context, server, host, port string) {
	round := l.mover.round
	l.mover.asked++
	within := l.bound(connectPart, l.cfg.ConnectTimeout)
	l.conns.Go(func() {
		resolving, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		addresses, err := l.cfg.Resolve(resolving, host)
		select {
		case l.calls <- func() { l.resolved(round, server, port, addresses, err) }:
		case <-ctx.Done():
		}
	})
}

func (l *loop) resolved(round uint64, server, port string, addresses []string, err error) {
	m := &l.mover
	if round != m.round || !m.begun {
		return
	}
	m.asked--
	if err != nil || len(addresses) == 0 {
		if err == nil {
			err = errNoAddress
		}
		l.attemptFailed(unreachable(server, err))
		return
	}
	l.dice.shuffle(addresses)
	var targets []target
	for _, a := range addresses[:min(len(addresses), maxAddresses)] {
		targets = append(targets, target{server, net.JoinHostPort(a, port)})
	}
	m.putBack(targets...)
	m.at = l.now
}

// attemptFailed goes on with what is left of the round. After the last of a round comes a back-off.
func (l *loop) attemptFailed(err error) {
	l.trouble.met(err)
	l.mover.others = l.mover.others || hint(err) == 0
	l.tryOn()
}

// tryOn makes the next attempt of the round at once.
func (l *loop) tryOn() {
	m := &l.mover
	switch {
	case len(m.left) > 0:
		m.at = l.now
	case m.asked > 0 || len(l.racing) > 0: // they decide the round
	case l.cur != nil && errors.Is(l.cur.failing, errRebalanced): // it serves as well as before
		l.cur.failing, m.fresh = nil, true
		l.stay()
	default:
		m.rounds++
		m.begun = false
		l.trouble.ended()
		l.endLagRound()
		m.at = l.now.Add(l.dice.backoff(m.rounds))
		if !m.others { // nobody else is there to ask
			m.at = latest(m.at, m.soonest(l.now))
		}
	}
}
