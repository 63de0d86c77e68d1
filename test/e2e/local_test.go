//go:build e2e

package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/timeout"
)

// localTimeout is the timeout of local sessions: longer than an election takes.
const localTimeout = 2 * minTimeout

// TestLocalSessions has hundreds of local sessions on one node. First it kills the leader, another node: no session
// ends, or is without a promise for a moment (K-07). Then it kills the sessions' own node: they end with it, and not
// before the end of their promises, while upgraded sessions live on.
func TestLocalSessions(t *testing.T) {
	const clients, each, upgraded = 3, 100, 20
	t.Parallel()
	c := create(t, 3, "local-sessions.yaml")
	t.Cleanup(c.down)
	l := c.newLedger()
	leader := c.awaitServing(healWithin, c.all()...)
	home := c.follower(leader)
	var locals []*account
	for range clients {
		locals = append(locals, l.localsAt(home, each, localTimeout)...)
	}
	lifted := l.localsAt(home, upgraded, localTimeout)
	all := append(lifted, locals...)
	l.known(home, len(all), 0)

	dead := time.Now()
	c.kill(leader)
	c.awaitLeader(healWithin, c.but(leader)...)
	took(t, "leads", time.Since(dead))
	time.Sleep(2 * localTimeout)
	l.noneEnded(all)
	l.noneLapsed(all)
	l.stayed(all)
	l.known(home, len(all), 0)
	c.start(leader)
	c.awaitServing(healWithin, c.all()...)

	l.upgrade(lifted)
	l.known(home, len(locals), upgraded)
	dead = time.Now()
	c.kill(home)
	l.awaitOwners(2*healWithin, lifted, c.but(home)...)
	l.moved(dead, lifted, c.but(home)...)
	token := locals[0].session.Token()
	l.endedWith(locals, session.Node(home))
	took(t, "local sessions given up after", time.Since(dead))
	l.noneEnded(lifted)

	c.start(home)
	c.awaitServing(healWithin, c.all()...)
	ctx, cancel := context.WithTimeout(t.Context(), healWithin)
	defer cancel()
	_, err := c.watcher(c.all()...).Resume(ctx, token)
	wantAway(t, err, 0)
	l.noneEnded(lifted)

	// A node that is back at once reports the end itself.
	locals = l.localsAt(home, each, 4*localTimeout)
	c.kill(home)
	c.start(home)
	l.endedWith(locals, 0)
	c.awaitServing(healWithin, c.all()...)
}

// localsAt opens local sessions at node n, with a client of their own.
func (l *ledger) localsAt(n, count int, wanted time.Duration) []*account {
	l.c.t.Helper()
	_, opened := l.clientWith(n, count, client.SessionOptions{Timeout: wanted, Local: true})
	for _, a := range opened {
		if s := a.session; !s.Local() || int(s.Owner()) != n || int(s.ID().Node()) != n {
			l.c.t.Fatalf("session %s is local %v, owned by node %d; want a local one of node %d", s.ID(), s.Local(),
				s.Owner(), n)
		}
	}
	return opened
}

// known checks how many local sessions node n shows, that none of them has expired, and how many became global.
func (l *ledger) known(n, locals, upgraded int) {
	l.c.t.Helper()
	for name, want := range map[string]int{
		"sessions_local": locals, "sessions_local_expired_total": 0,
		"sessions_local_upgraded_total": upgraded,
	} {
		if got := l.c.metric(n, "holdfast_"+name); int(got) != want {
			l.c.t.Errorf("node %d shows %s %v, want %d", n, name, got, want)
		}
	}
}

// upgrade makes sessions global, all at once.
func (l *ledger) upgrade(accounts []*account) {
	l.c.t.Helper()
	ctx, cancel := context.WithTimeout(l.c.t.Context(), healWithin)
	defer cancel()
	errs := make([]error, len(accounts))
	each(len(accounts), openers, func(i int) { errs[i] = accounts[i].session.Upgrade(ctx) })
	timeout.Check(l.c.t, timeout.Join(errs...))
	for _, a := range accounts {
		if a.session.Local() {
			l.c.t.Errorf("session %s is local after its upgrade", a.session.ID())
		}
	}
}

// endedWith waits until local sessions whose node was killed have ended for their clients, by the word of that node or
// of others, which name it (L6 unknown local sessions): in the second case not before their last promise was over. No
// promise is broken by that: the promise of a local session is valid for a process. So the audit leaves these sessions
// out.
func (l *ledger) endedWith(accounts []*account, away session.Node) {
	l.c.t.Helper()
	for _, a := range accounts {
		select {
		case <-a.session.Done():
		case <-time.After(localTimeout + 2*healWithin):
			timeout.Fatalf(l.c.t, "session %s has not ended with its node", a.session.ID())
		}
		at := time.Now()
		wantAway(l.c.t, a.session.Err(), away)
		if safe := l.look(a).safe; away != 0 && at.Before(safe) {
			l.c.t.Errorf("session %s was given up %v before its promise was over", a.session.ID(), safe.Sub(at))
		}
		l.forget(a)
	}
}

// wantAway checks that an error says that a local session has ended, or that only node away can know more of it.
func wantAway(t *testing.T, err error, away session.Node) {
	t.Helper()
	if e, ok := errors.AsType[*session.ExpiredError](err); !ok || e.Certificate != nil || e.LocalTo != away {
		t.Errorf("got %v, want the end of a local session, known to node %d alone", err, away)
	}
}
