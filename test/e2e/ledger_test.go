//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/timeout"
)

const (
	// sweepEvery is the interval between two looks at the promises of all sessions.
	sweepEvery = 20 * time.Millisecond
	// openers and closers bound the sessions that are opened or closed at the same time.
	openers = 256
	// auditTime bounds the closing of all sessions.
	auditTime = 30 * time.Second
	// longGap is the shortest time between two sweeps in which clients can have missed their touches.
	longGap = minTimeout / 8
)

// ledger holds sessions, records every promise for them, and checks at the end that none was broken.
type ledger struct {
	c       *cluster
	clients []*client.Client
	cancel  context.CancelFunc
	expired int // sessions whose client has gone

	watching sync.WaitGroup
	mu       sync.Mutex
	accounts []*account // guarded by mu
	promises int        // promises that were seen; guarded by mu
	// swept is when the last sweep began, gaps the times above longGap between two sweeps, heldUp the longest time. This
	// machine did not run the clients then. All are guarded by mu.
	swept  time.Time
	gaps   []gap
	heldUp time.Duration
}

// gap is a time in which this machine did not run the clients.
type gap struct{ from, to time.Time }

// account is one session with its promises. Its fields after gone are guarded by the ledger's mu.
type account struct {
	session *client.Session
	timeout time.Duration
	gone    bool // its client has gone; used by the test's goroutine only
	// safe is the latest promise, lapses the times at which the context ended, moves the events in which a node began
	// to serve it.
	safe   time.Time
	lapses []time.Time
	moves  []move
	// ended is when the client heard of the end, err the reason.
	ended time.Time
	err   error
}

// move is the moment at which a node began to serve a session.
type move struct {
	to session.Node
	at time.Time
}

// newLedger makes a ledger. It checks all promises when the test ends, before the cluster ends.
func (c *cluster) newLedger() *ledger {
	ctx, cancel := context.WithCancel(context.Background())
	l := &ledger{c: c, cancel: cancel, swept: time.Now()}
	l.watching.Go(func() { l.sweep(ctx) })
	c.t.Cleanup(l.audit)
	return l
}

// client returns a client that knows all nodes.
func (l *ledger) client() *client.Client {
	l.c.t.Helper()
	x, err := client.New(l.c.config(l.c.all()...))
	timeout.Check(l.c.t, err)
	l.clients = append(l.clients, x)
	return x
}

// clientAt returns a client that knows all nodes and is connected to node n, with the sessions that it opened there. A
// client chooses a node at random: clients that chose another node close their sessions.
func (l *ledger) clientAt(n, count int, wanted time.Duration) (*client.Client, []*account) {
	l.c.t.Helper()
	return l.clientWith(n, count, client.SessionOptions{Timeout: wanted})
}

// clientWith is clientAt for sessions of any kind.
func (l *ledger) clientWith(n, count int, o client.SessionOptions) (*client.Client, []*account) {
	l.c.t.Helper()
	for range 50 * l.c.nodes {
		x := l.client()
		first := l.openAll(x, 1, o)
		if int(first[0].session.Owner()) == n {
			return x, append(first, l.openAll(x, count-1, o)...)
		}
		ctx, cancel := context.WithTimeout(context.Background(), healWithin)
		timeout.Check(l.c.t, first[0].session.Close(ctx))
		cancel()
		l.forget(first[0])
		x.Close()
	}
	l.c.t.Fatalf("no client chose node %d", n)
	return nil, nil
}

// forget removes a session that was closed on purpose.
func (l *ledger) forget(a *account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accounts = slices.DeleteFunc(l.accounts, func(b *account) bool { return a == b })
}

// open opens count sessions at x and watches them.
func (l *ledger) open(x *client.Client, count int, wanted time.Duration) []*account {
	l.c.t.Helper()
	return l.openAll(x, count, client.SessionOptions{Timeout: wanted})
}

// openAll is open for sessions of any kind.
func (l *ledger) openAll(x *client.Client, count int, o client.SessionOptions) []*account {
	l.c.t.Helper()
	o.Labels = map[string]string{"test": "e2e"}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	opened := make([]*account, count)
	errs := make([]error, count)
	each(count, openers, func(i int) {
		s, err := x.Open(ctx, o)
		if err != nil {
			errs[i] = err
			return
		}
		opened[i] = l.hold(s)
	})
	timeout.Check(l.c.t, timeout.Join(errs...))
	return opened
}

// hold watches a session from now on.
func (l *ledger) hold(s *client.Session) *account {
	a := &account{session: s, timeout: s.Timeout()}
	l.mu.Lock()
	l.accounts = append(l.accounts, a)
	l.mu.Unlock()
	l.watching.Go(func() { l.watch(a) })
	return a
}

// each calls do for 0 to n-1, at most some calls at a time.
func each(n, some int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, some) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// sweep records the promises of all sessions, until ctx ends.
func (l *ledger) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		l.begin(time.Now())
		for _, a := range l.all() {
			l.book(a, a.session.SafeUntil())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// begin notes that a sweep begins.
func (l *ledger) begin(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := now.Sub(l.swept)
	if l.heldUp = max(l.heldUp, since); since > longGap {
		l.gaps = append(l.gaps, gap{l.swept, now})
	}
	l.swept = now
}

func (l *ledger) all() []*account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.accounts)
}

func (l *ledger) book(a *account, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until.After(a.safe) {
		a.safe = until
		l.promises++
	}
}

// watch records the events of a until its end.
func (l *ledger) watch(a *account) {
	for e := range a.session.Events() { // closed after the end
		l.event(a, e)
	}
	<-a.session.Done()
	l.mu.Lock()
	defer l.mu.Unlock()
	a.ended, a.err = time.Now(), a.session.Err()
}

func (l *ledger) event(a *account, e client.Event) {
	l.book(a, e.SafeUntil)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Kind { //nolint:exhaustive // the other kinds are not counted
	case client.Lapsed:
		a.lapses = append(a.lapses, e.At)
	case client.Connected:
		a.moves = append(a.moves, move{e.Node, e.At})
	}
}

// look returns a copy of an account.
func (l *ledger) look(a *account) account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return account{
		session: a.session, timeout: a.timeout, safe: a.safe, lapses: a.lapses, moves: a.moves,
		ended: a.ended, err: a.err,
	}
}

// lostSession is a session that was not kept as it should be, and when that showed.
type lostSession struct {
	of   account
	at   []time.Time
	what string
}

// lost fails the test for each loss. A loss is excused if this machine held up the clients within the session's last
// timeout before it, so that they can have missed their touches. If all losses are excused, the test has timed out.
func (l *ledger) lost(all ...lostSession) {
	l.c.t.Helper()
	var excused []string
	for _, one := range all {
		if why, ok := l.excuse(one, time.Now()); ok {
			excused = append(excused, one.what+"; "+why)
			continue
		}
		l.c.t.Errorf("%s", one.what)
	}
	if len(excused) > 0 {
		timeout.Fatalf(l.c.t, "%s", strings.Join(excused, "\n"))
	}
}

// excuse reports whether a gap explains each moment of a loss.
func (l *ledger) excuse(one lostSession, now time.Time) (why string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gaps := slices.Clone(l.gaps)
	if now.Sub(l.swept) > longGap { // the sweep may begin after the test goes on
		gaps = append(gaps, gap{l.swept, now})
	}
	for _, at := range one.at {
		i := slices.IndexFunc(gaps, func(g gap) bool {
			return g.from.Before(at) && g.to.After(at.Add(-one.of.timeout))
		})
		if i < 0 {
			return "", false
		}
		why = fmt.Sprintf("the clients did not run for %v before", gaps[i].to.Sub(gaps[i].from))
	}
	return why, len(one.at) > 0
}

// ended is the loss of a session that has ended.
func ended(a account) lostSession {
	return lostSession{a, []time.Time{a.ended}, fmt.Sprintf("session %s has ended: %v", a.session.ID(), a.err)}
}

// noneEnded fails for each session that has ended.
func (l *ledger) noneEnded(accounts []*account) {
	l.c.t.Helper()
	var all []lostSession
	for _, a := range accounts {
		if a := l.look(a); !a.ended.IsZero() {
			all = append(all, ended(a))
		}
	}
	l.lost(all...)
}

// awaitOwners waits until each session is safe and owned by one of nodes, and none has ended.
func (l *ledger) awaitOwners(d time.Duration, accounts []*account, nodes ...int) {
	l.c.t.Helper()
	l.c.await(d, fmt.Sprintf("%d sessions are safe on nodes %v", len(accounts), nodes), func() (bool, string) {
		for _, a := range accounts {
			s := a.session
			if err := s.Err(); err != nil {
				now := l.look(a)
				if now.ended.IsZero() { // the ledger hears of it a moment after the session tells
					now.ended, now.err = time.Now(), err
				}
				l.lost(ended(now))
				l.c.t.FailNow()
			}
			if !slices.Contains(nodes, int(s.Owner())) || s.SafeUntil().IsZero() {
				return false, fmt.Sprintf("session %s is owned by node %d, safe for %v", s.ID(), s.Owner(),
					time.Until(s.SafeUntil()))
			}
		}
		return true, ""
	})
}

// noneLapsed fails for each session that was without a promise for a while.
func (l *ledger) noneLapsed(accounts []*account) {
	l.c.t.Helper()
	var all []lostSession
	for _, a := range accounts {
		if a := l.look(a); len(a.lapses) > 0 {
			all = append(all, lostSession{a, a.lapses, fmt.Sprintf("session %s lapsed at %v; it was served by nodes %v",
				a.session.ID(), a.lapses, a.moves)})
		}
	}
	l.lost(all...)
}

// unsafe fails for each session that has a promise though no node could keep it.
func (l *ledger) unsafe(accounts []*account) {
	l.c.t.Helper()
	for _, a := range accounts {
		if !a.session.SafeUntil().IsZero() || a.session.Context().Err() == nil {
			l.c.t.Errorf("session %s has a promise, and no node could keep it", a.session.ID())
		}
	}
}

// ownedBy returns the sessions that one of nodes served last before a moment.
func (l *ledger) ownedBy(accounts []*account, before time.Time, nodes ...int) []*account {
	return slices.DeleteFunc(slices.Clone(accounts), func(a *account) bool {
		var owner session.Node
		for _, m := range l.look(a).moves {
			if m.at.Before(before) {
				owner = m.to
			}
		}
		return !slices.Contains(nodes, int(owner))
	})
}

// stayed fails for each session that was served by more than one node, or more than once.
func (l *ledger) stayed(accounts []*account) {
	l.c.t.Helper()
	var all []lostSession
	for _, a := range accounts {
		a := l.look(a)
		if len(a.moves) == 1 {
			continue
		}
		one := lostSession{of: a, what: fmt.Sprintf("session %s was served by nodes %v, want one all the time", a.session.ID(),
			a.moves)}
		for _, again := range a.moves[min(1, len(a.moves)):] {
			one.at = append(one.at, again.at)
		}
		all = append(all, one)
	}
	l.lost(all...)
}

// moved logs how long after a fault the first and the last of some sessions were served again, by one of nodes.
func (l *ledger) moved(since time.Time, accounts []*account, nodes ...int) {
	l.c.t.Helper()
	if len(accounts) == 0 {
		l.c.t.Error("the fault hit no session")
	}
	var first, last time.Duration
	for i, a := range accounts {
		again := time.Duration(-1)
		// The event of a move may reach the ledger a moment after the session tells its new owner.
		l.c.await(healWithin, fmt.Sprintf("session %s is served by nodes %v after the fault", a.session.ID(), nodes),
			func() (bool, string) {
				moves := l.look(a).moves
				for _, m := range moves {
					if m.at.After(since) && slices.Contains(nodes, int(m.to)) {
						again = m.at.Sub(since)
						return true, ""
					}
				}
				return false, fmt.Sprint(moves)
			})
		if i == 0 || again < first {
			first = again
		}
		last = max(last, again)
	}
	took(l.c.t, "first served", first)
	took(l.c.t, "all served", last)
}
