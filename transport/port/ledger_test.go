package port

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTheLedgerAddsUp: after any sequence of changes, the node counts the bytes of the open accounts beyond their
// allowances.
func TestTheLedgerAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewLedger(1<<40, 0)
		accounts := make([]*Account, 3)
		for i := range accounts {
			accounts[i] = l.NewAccount(func(time.Duration) {})
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			a, n := rapid.SampledFrom(accounts).Draw(t, "account"), rapid.IntRange(0, 9<<20).Draw(t, "bytes")
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				a.Add(n)
			case 1:
				a.Add(-min(n, a.bytes))
			case 2:
				_ = a.Reserve(n)
			case 3:
				a.Allow(n / SessionBytes)
			case 4:
				a.received(time.Time{}, n)
			case 5:
				a.complete(n)
			default:
				a.closeWith(nil)
			}
			want := 0
			for _, a := range accounts {
				if !a.closed {
					want += max(a.bytes-a.allowance, 0)
				}
			}
			if got := l.Waiting(); got != int64(want) {
				t.Fatalf("the node counts %d, the connections %d", got, want)
			}
			if len(l.open) > len(accounts) {
				t.Fatal("more accounts are open than were made")
			}
		}
	})
}
