package client

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"holdfast/client/internal/route"
)

// resolves reports whether a server has a name that must be resolved before it can be dialled.
func (l *loop) resolves(server string) (host, port string, named bool) {
	host, port, err := net.SplitHostPort(server)
	if err != nil || l.cfg.Resolve == nil {
		return "", "", false
	}
	_, err = netip.ParseAddr(host)
	return host, port, err != nil
}

// advance makes the next attempt when it is due: the first of a round at once, and each other one when the one before
// has failed, or has not connected within the hedge delay.
func (l *loop) advance(ctx context.Context) {
	m := &l.router
	if at := m.WakesAt(len(l.racing)); l.next != nil || at.IsZero() || l.now.Before(at) {
		return
	}
	if !m.Begun {
		m.Begin(l.jitter, l.homing())
		if l.readOnly(l.cur) {
			m.PutOff(l.cur.Server)
		}
	}
	t, ok := m.Pop()
	if !ok {
		return
	}
	m.At = l.now.Add(l.bound(hedgePart, l.cfg.HedgeDelay))
	if t.Address == "" {
		if host, port, named := l.resolves(t.Server); named {
			l.resolve(ctx, t.Server, host, port)
			return
		}
		t.Address = t.Server
	}
	if l.now.Before(m.NotBefore[t]) {
		l.tryOn()
		return
	}
	c := l.dial(ctx, t)
	c.dialled, c.deadline = l.now, l.now.Add(l.bound(connectPart, l.cfg.ConnectTimeout))
	l.racing = append(l.racing, c)
}

// resolve asks for the addresses of a server's name, which then are tried next, in random order.
func (l *loop) resolve(ctx context.Context, server, host, port string) {
	round := l.router.Round
	l.router.Asked++
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
	m := &l.router
	if round != m.Round || !m.Begun {
		return
	}
	m.Asked--
	if err != nil || len(addresses) == 0 {
		if err == nil {
			err = errNoAddress
		}
		l.attemptFailed(route.Unreachable(server, err))
		return
	}
	l.jitter.Shuffle(addresses)
	var targets []route.Target
	for _, a := range addresses[:min(len(addresses), route.MaxAddresses)] {
		targets = append(targets, route.Target{Server: server, Address: net.JoinHostPort(a, port)})
	}
	m.PutBack(targets...)
	m.At = l.now
}

// attemptFailed goes on with what is left of the round. After the last of a round comes a back-off.
func (l *loop) attemptFailed(err error) {
	l.trouble.Met(err)
	l.router.Others = l.router.Others || route.Hint(err) == 0
	l.tryOn()
}

// tryOn makes the next attempt of the round at once.
func (l *loop) tryOn() {
	m := &l.router
	switch {
	case len(m.Left) > 0:
		m.At = l.now
	case m.Asked > 0 || len(l.racing) > 0: // they decide the round
	case l.cur != nil && errors.Is(l.cur.failing, errRebalanced): // it serves as well as before
		l.cur.failing, m.Fresh = nil, true
		l.stay()
	default:
		m.Rounds++
		m.Begun = false
		l.trouble.Ended()
		l.endLagRound()
		m.At = l.now.Add(l.jitter.Backoff(m.Rounds))
		if !m.Others { // nobody else is there to ask
			m.At = route.Latest(m.At, m.Soonest(l.now))
		}
	}
}
