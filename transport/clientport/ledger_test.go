package clientport

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
)

// TestTheEndOfACrowdFits: a client that is behind hears of the end of all its sessions, and its touch of all is
// answered.
func TestTheEndOfACrowdFits(t *testing.T) {
	const sessions = 100_000
	l := port.NewLedger(32<<20, 1024)
	a := l.NewAccount(func(time.Duration) { t.Error("the connection was ended") })
	o := newOutbox(4096, a, port.ReadPatience, noState)
	o.allow(sessions)
	failures := make([]session.TouchFailure, sessions)
	for i := range failures {
		c := porttest.Certificate(session.ID(1<<60 + i))
		failures[i] = session.TouchFailure{ID: c.ID, Err: &session.ExpiredError{ID: c.ID, Certificate: &c}}
		o.gone(c)
	}
	o.add(
		&holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_Touched{Touched: &holdfastv1.Touched{Failures: failuresProto(failures)}},
		},
	)
	if o.err() != nil || l.Total.Load() > maxOutgoingBytes {
		t.Errorf("%v: %d bytes wait on the stream, %d count on the node", o.err(), o.bytes, l.Total.Load())
	}
	if o.drop(); l.Total.Load() != 0 || a.Bytes != 0 || a.Allowance != 0 {
		t.Errorf("%d count on the node and %d on the connection after its end", l.Total.Load(), a.Bytes)
	}
}

// TestTheLedgerAddsUp: whatever happens to accounts, the node counts what the open ones hold beyond their allowance.
func TestTheLedgerAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := port.NewLedger(1<<40, 0)
		accounts := make([]*port.Account, 3)
		for i := range accounts {
			accounts[i] = l.NewAccount(func(time.Duration) {})
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			a, n := rapid.SampledFrom(accounts).Draw(t, "account"), rapid.IntRange(0, 9<<20).Draw(t, "bytes")
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				a.Add(n)
			case 1:
				a.Add(-min(n, a.Bytes))
			case 2:
				_ = a.Reserve(n)
			case 3:
				a.Allow(n / port.SessionBytes)
			case 4:
				a.Received(time.Time{}, n)
			case 5:
				a.Complete(n)
			default:
				a.Close(nil)
			}
			want := 0
			for _, a := range accounts {
				if !a.Closed {
					want += max(a.Bytes-a.Allowance, 0)
				}
			}
			if got := l.Total.Load(); got != int64(want) {
				t.Fatalf("the node counts %d, the connections %d", got, want)
			}
			if len(l.Open) > len(accounts) {
				t.Fatal("too many are open")
			}
		}
	})
}
