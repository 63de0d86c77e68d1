//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/client"
	"holdfast/session"
)

// ledger holds sessions and every promise that was given for them, and shows at the end that none was broken.
type ledger struct {
	c       *cluster
	clients []*client.Client

	watching sync.WaitGroup
	mu       sync.Mutex
	accounts []*account // guarded by mu
}

// account is one session and what was promised for it. Its fields after session are guarded by the ledger's mu.
type account struct {
	session *client.Session
	// safe is the latest promise, lapses how often the context ended, moves the events in which a node began to serve it.
	safe   time.Time
	lapses int
	moves  []session.Node
	// ended is when the client heard of the end, err why.
	ended time.Time
	err   error
}

// newLedger checks all promises when the test ends, before the cluster goes.
func (c *cluster) newLedger() *ledger {
	l := &ledger{c: c}
	c.t.Cleanup(l.audit)
	return l
}

// client returns a client that knows all nodes.
func (l *ledger) client() *client.Client {
	l.c.t.Helper()
	x, err := client.New(client.Config{Endpoints: l.c.endpoints(l.c.all()...)})
	if err != nil {
		l.c.t.Fatal(err)
	}
	l.clients = append(l.clients, x)
	return x
}

// clientAt returns a client that knows all nodes and is connected to node n, with the sessions it has opened there. A
// client chooses among the nodes at random: those that chose another one close what they opened.
func (l *ledger) clientAt(n, count int, timeout time.Duration) (*client.Client, []*account) {
	l.c.t.Helper()
	for range 50 * l.c.nodes {
		x := l.client()
		first := l.open(x, 1, timeout)
		if int(first[0].session.Owner()) == n {
			return x, append(first, l.open(x, count-1, timeout)...)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err := first[0].session.Close(ctx); err != nil {
			l.c.t.Fatal(err)
		}
		cancel()
		l.forget(first[0])
		x.Close()
	}
	l.c.t.Fatalf("no client chose node %d", n)
	return nil, nil
}

// forget drops a session that was closed on purpose.
func (l *ledger) forget(a *account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accounts = slices.DeleteFunc(l.accounts, func(b *account) bool { return a == b })
}

// open opens count sessions at x and watches them.
func (l *ledger) open(x *client.Client, count int, timeout time.Duration) []*account {
	l.c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var opened []*account
	for range count {
		s, err := x.Open(ctx, client.SessionOptions{Timeout: timeout, Labels: map[string]string{"test": "e2e"}})
		if err != nil {
			l.c.t.Fatal(err)
		}
		a := &account{session: s}
		l.mu.Lock()
		l.accounts = append(l.accounts, a)
		l.mu.Unlock()
		l.watching.Go(func() { l.watch(a) })
		opened = append(opened, a)
	}
	return opened
}

// watch books what happens to a until its end.
func (l *ledger) watch(a *account) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	events := a.session.Events()
	for {
		l.book(a)
		select {
		case <-ticker.C:
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			l.event(a, e)
		case <-a.session.Done():
			l.mu.Lock()
			a.ended, a.err = time.Now(), a.session.Err()
			l.mu.Unlock()
			return
		}
	}
}

func (l *ledger) book(a *account) {
	until := a.session.SafeUntil()
	l.mu.Lock()
	defer l.mu.Unlock()
	if until.After(a.safe) {
		a.safe = until
	}
}

func (l *ledger) event(a *account, e client.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.SafeUntil.After(a.safe) {
		a.safe = e.SafeUntil
	}
	switch e.Kind { //nolint:exhaustive // the others are not counted
	case client.Lapsed:
		a.lapses++
	case client.Connected:
		a.moves = append(a.moves, e.Node)
	}
}

// look returns a copy of an account.
func (l *ledger) look(a *account) account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return account{session: a.session, safe: a.safe, lapses: a.lapses, moves: a.moves, ended: a.ended, err: a.err}
}

// audit shows that no session ended before a promise for it did, by the client's clock and by the certificate's. All
// containers share this machine's clocks.
func (l *ledger) audit() {
	for _, x := range l.clients {
		x.Close()
	}
	l.watching.Wait()
	for _, a := range l.accounts {
		var expired *session.ExpiredError
		if !errors.As(a.err, &expired) {
			continue
		}
		if expired.Certificate == nil {
			l.c.t.Errorf("session %s ended without a certificate", a.session.ID())
			continue
		}
		l.kept(a, *expired.Certificate)
		if a.ended.Before(a.safe) {
			l.c.t.Errorf("I3: session %s was heard to have ended %v before a promise did", a.session.ID(), a.safe.Sub(a.ended))
		}
	}
}

// kept shows that a certificate breaks no promise.
func (l *ledger) kept(a *account, cert session.Certificate) {
	l.c.t.Helper()
	// The certificate's time is cut to milliseconds.
	if early := a.safe.Round(0).Sub(cert.EndedAt); cert.Cause == session.CauseExpired && early > time.Millisecond {
		l.c.t.Errorf("I3: session %s expired %v before the end of a promise: %+v", a.session.ID(), early, cert)
	}
}

// noneEnded fails for each session that has ended.
func (l *ledger) noneEnded(accounts []*account) {
	l.c.t.Helper()
	for _, a := range accounts {
		if a := l.look(a); !a.ended.IsZero() {
			l.c.t.Errorf("session %s has ended: %v", a.session.ID(), a.err)
		}
	}
}

// awaitOwners waits until each session is safe and owned by one of nodes, and none has ended.
func (l *ledger) awaitOwners(d time.Duration, accounts []*account, nodes ...int) {
	l.c.t.Helper()
	l.c.await(d, fmt.Sprintf("%d sessions are safe on nodes %v", len(accounts), nodes), func() (bool, string) {
		for _, a := range accounts {
			s := a.session
			if err := s.Err(); err != nil {
				l.c.t.Fatalf("session %s has ended: %v", s.ID(), err)
			}
			if !slices.Contains(nodes, int(s.Owner())) || s.SafeUntil().IsZero() {
				return false, fmt.Sprintf("session %s is owned by node %d, safe for %v", s.ID(), s.Owner(), time.Until(s.SafeUntil()))
			}
		}
		return true, ""
	})
}

// noneLapsed fails for each session that was without a promise for a while.
func (l *ledger) noneLapsed(accounts []*account) {
	l.c.t.Helper()
	for _, a := range accounts {
		if a := l.look(a); a.lapses > 0 {
			l.c.t.Errorf("session %s lapsed %d times; it was served by nodes %v", a.session.ID(), a.lapses, a.moves)
		}
	}
}
