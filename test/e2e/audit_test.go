//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"holdfast/session"
)

// audit checks that no session ended before the end of a promise for it, by the client's clock and by the
// certificate's. All containers share this machine's clocks. It closes living sessions, which proves that they lived.
func (l *ledger) audit() {
	l.closeAll()
	for _, x := range l.clients {
		x.Close()
	}
	l.cancel()
	l.watching.Wait()
	expired, broken, lapses, moves := l.expired, 0, 0, 0
	ids := make(map[session.ID]bool) // a stolen session has several accounts
	for _, a := range l.accounts {
		ids[a.session.ID()] = true
		if errors.Is(a.err, session.ErrExpired) && !errors.Is(a.err, session.ErrClosed) {
			expired++
		}
		for _, breach := range a.breaches() {
			broken++
			l.c.t.Error(breach)
		}
		lapses += len(a.lapses)
		moves += len(a.moves) - 1
	}
	count(l.c.t, "sessions", "", len(ids))
	count(l.c.t, "promises", "", l.promises)
	count(l.c.t, "moves", "", max(moves, 0))
	count(l.c.t, "lapses", "", lapses)
	count(l.c.t, "expired", "", expired)
	count(l.c.t, "broken", "", broken)
	took(l.c.t, "clients did not run for at most", l.heldUp)
	if l.promises < len(l.accounts) {
		l.c.t.Errorf("only %d promises were seen for %d sessions: the audit shows nothing", l.promises, len(l.accounts))
	}
}

// closeAll closes the sessions that are still held. A close finds out whether a session is dead.
func (l *ledger) closeAll() {
	ctx, cancel := context.WithTimeout(context.Background(), auditTime)
	defer cancel()
	each(len(l.accounts), openers, func(i int) {
		s := l.accounts[i].session
		if s.Err() == nil {
			_ = s.Close(ctx) // Err returns the same error
		}
	})
}

// breaches returns the broken promises for a session.
func (a *account) breaches() []error {
	var expired *session.ExpiredError
	if !errors.As(a.err, &expired) {
		return nil
	}
	if expired.Certificate == nil {
		return []error{fmt.Errorf("session %s ended without a certificate", expired.ID)}
	}
	all := broken(a.safe, a.timeout, *expired.Certificate)
	if a.ended.Before(a.safe) {
		all = append(all, fmt.Errorf("I3: session %s was heard to have ended %v before a promise did", expired.ID,
			a.safe.Sub(a.ended)))
	}
	return all
}

// broken returns whether a session expired before the end of its latest promise (I3 an acknowledged touch counts), or
// too soon after its last touch (I1 never early).
func broken(safe time.Time, timeout time.Duration, cert session.Certificate) []error {
	if cert.Cause != session.CauseExpired {
		return nil
	}
	var all []error
	// The certificate's time is truncated to milliseconds.
	if early := safe.Round(0).Sub(cert.EndedAt); early > time.Millisecond {
		all = append(all, fmt.Errorf("I3: session %s expired %v before the end of a promise: %+v", cert.ID, early,
			cert))
	}
	if cert.LastTouchAge >= 0 && cert.LastTouchAge < timeout {
		all = append(all, fmt.Errorf("I1: session %s expired %v after its last touch, its timeout is %v: %+v", cert.ID,
			cert.LastTouchAge, timeout, cert))
	}
	return all
}

// kept checks that the certificate of a session whose client has gone breaks no promise.
func (l *ledger) kept(a *account, cert session.Certificate) {
	l.c.t.Helper()
	l.expired++
	a.gone = true
	for _, breach := range broken(l.look(a).safe, a.timeout, cert) {
		l.c.t.Error(breach)
	}
}

// TestAuditFinds gives the audit broken promises. It must find them.
func TestAuditFinds(t *testing.T) {
	now := time.Now()
	cert := session.Certificate{Cause: session.CauseExpired, EndedAt: now.Round(0), LastTouchAge: minTimeout}
	early := cert
	early.LastTouchAge--
	ended := func(cert *session.Certificate) error { return &session.ExpiredError{Certificate: cert} }
	for _, test := range []struct {
		name string
		a    account
		want int
	}{
		{"kept", account{safe: now, ended: now, err: ended(&cert)}, 0},
		{"expired before the promise ended", account{
			safe: now.Add(2 * time.Millisecond), ended: now.Add(time.Second),
			err: ended(&cert),
		}, 1},
		{
			"heard of before the promise ended",
			account{safe: now, ended: now.Add(-time.Millisecond), err: ended(&cert)},
			1,
		},
		{"both", account{safe: now.Add(time.Hour), ended: now, err: ended(&cert)}, 2},
		{"expired too soon after a touch", account{safe: now, ended: now, err: ended(&early)}, 1},
		{"ended without a certificate", account{safe: now, ended: now, err: ended(nil)}, 1},
		{"closed", account{safe: now.Add(time.Hour), ended: now, err: session.ErrClosed}, 0},
	} {
		test.a.timeout = minTimeout
		if got := test.a.breaches(); len(got) != test.want {
			t.Errorf("%s: got %v, want %d", test.name, got, test.want)
		}
	}
}

// TestLostExcuses: a session that is lost is excused by a gap within its last timeout, and by no other gap.
func TestLostExcuses(t *testing.T) {
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	l := &ledger{swept: start}
	for _, sweep := range []int{1, 2, 20, 21} { // the clients did not run from 2 to 20
		for now := l.swept; now.Before(at(sweep)) && sweep != 20; now = now.Add(sweepEvery) {
			l.begin(now)
		}
		l.begin(at(sweep))
	}
	of := account{timeout: 4 * time.Second}
	for _, test := range []struct {
		name    string
		at      []time.Time
		now     time.Time
		excused bool
	}{
		{"before the gap", []time.Time{at(1)}, at(21), false},
		{"in the gap", []time.Time{at(5)}, at(21), true},
		{"soon after the gap", []time.Time{at(23)}, at(21), true},
		{"long after the gap", []time.Time{at(25)}, at(21), false},
		{"once excused, once not", []time.Time{at(23), at(25)}, at(21), false},
		{"twice excused", []time.Time{at(3), at(23)}, at(21), true},
		{"in a gap that lasts", []time.Time{at(30)}, at(31), true},
		{"without a moment", nil, at(21), false},
	} {
		if why, ok := l.excuse(lostSession{of: of, at: test.at}, test.now); ok != test.excused {
			t.Errorf("%s: excused %v (%s), want %v", test.name, ok, why, test.excused)
		}
	}
}
