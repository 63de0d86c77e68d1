package port

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// A connection ends when its client has read no answer for ten minutes. Each answer that it reads restarts the wait,
// unread answers do not. A client that has read all may be quiet for as long as it likes.
func TestAnswersThatNobodyReads(t *testing.T) {
	const wait = 10 * time.Minute // a number of the test: unwrittenWait may be wrong
	for _, tt := range []struct {
		name string
		// use uses the connection, and returns when it ends after that.
		use func(a *Account) time.Duration
	}{
		{"one is taken, another is not", func(a *Account) time.Duration {
			first := a.Get(100)
			a.Get(100)
			time.Sleep(wait / 2)
			a.Put(first)
			return wait
		}},
		{"further answers", func(a *Account) time.Duration {
			a.Get(100)
			for range 3 {
				time.Sleep(wait / 4)
				a.Get(100)
			}
			return wait / 4
		}},
		{"all were taken", func(a *Account) time.Duration {
			a.Put(a.Get(100))
			time.Sleep(3 * wait)
			a.Get(100)
			return wait
		}},
	} {
		bubble.Test(t, func(t *testing.T) {
			var ended atomic.Bool
			a := NewLedger(1<<30, 0).NewAccount(func(time.Duration) { ended.Store(true) })
			left := tt.use(a)
			time.Sleep(left - time.Nanosecond)
			synctest.Wait()
			if ended.Load() {
				t.Fatalf("%s: ended too early, with %v", tt.name, a.Err())
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if limit, ok := errors.AsType[*session.LimitError](a.Err()); !ended.Load() || !ok || limit.Name != "write_timeout" {
				t.Errorf("%s: ended %t with %v, want the limit write_timeout", tt.name, ended.Load(), a.Err())
			}
		})
	}
}
