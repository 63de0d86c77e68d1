package transport

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// TestTheEndOfACrowdFits: a client that is behind hears of the end of all its sessions, and its touch of all is answered.
func TestTheEndOfACrowdFits(t *testing.T) {
	const sessions = 100_000
	l := newLedger(32<<20, 1024)
	a := l.newAccount(func(time.Duration) { t.Error("the connection was ended") })
	o := newOutbox(4096, a, readPatience, noState)
	o.allow(sessions)
	failures := make([]session.TouchFailure, sessions)
	for i := range failures {
		c := certificate(session.ID(1<<60 + i))
		failures[i] = session.TouchFailure{ID: c.ID, Err: &session.ExpiredError{ID: c.ID, Certificate: &c}}
		o.gone(c)
	}
	o.add(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: &holdfastv1.Touched{Failures: failuresProto(failures)}}})
	if o.err() != nil || l.total.Load() > maxOutgoingBytes {
		t.Errorf("%v: %d bytes wait on the stream, %d count on the node", o.err(), o.bytes, l.total.Load())
	}
	if o.drop(); l.total.Load() != 0 || a.bytes != 0 || a.allowance != 0 {
		t.Errorf("%d count on the node and %d on the connection after its end", l.total.Load(), a.bytes)
	}
}

// TestTheLedgerAddsUp: whatever happens to accounts, the node counts what the open ones hold beyond their allowance.
func TestTheLedgerAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger(1<<40, 0)
		accounts := make([]*account, 3)
		for i := range accounts {
			accounts[i] = l.newAccount(func(time.Duration) {})
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			a, n := rapid.SampledFrom(accounts).Draw(t, "account"), rapid.IntRange(0, 9<<20).Draw(t, "bytes")
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				a.add(n)
			case 1:
				a.add(-min(n, a.bytes))
			case 2:
				_ = a.reserve(n)
			case 3:
				a.allow(n / sessionBytes)
			case 4:
				a.received(time.Time{}, n)
			case 5:
				a.complete(n)
			default:
				a.close(nil)
			}
			want := 0
			for _, a := range accounts {
				if !a.closed {
					want += max(a.bytes-a.allowance, 0)
				}
			}
			if got := l.total.Load(); got != int64(want) {
				t.Fatalf("the node counts %d, the connections %d", got, want)
			}
			if len(l.open) > len(accounts) {
				t.Fatal("too many are open")
			}
		}
	})
}
