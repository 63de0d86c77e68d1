package port

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// A connection ends when its client has taken no answer for unwrittenWait; one that it takes begins the wait anew.
func TestAnswersThatNobodyTakes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		begun, ended := time.Now(), time.Duration(0)
		a := NewLedger(1<<30, 0).NewAccount(func(time.Duration) { ended = time.Since(begun) })
		first, second := a.Get(100), a.Get(100)
		time.Sleep(unwrittenWait / 2)
		a.Put(first)
		time.Sleep(unwrittenWait - time.Nanosecond)
		synctest.Wait()
		if ended != 0 {
			t.Fatalf("ended after %v with %v", ended, a.Err())
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if limit, ok := errors.AsType[*session.LimitError](a.Err()); !ok || limit.Name != "unwritten_wait" {
			t.Errorf("ended with %v, want the limit unwritten_wait", a.Err())
		}
		if want := unwrittenWait * 3 / 2; ended != want {
			t.Errorf("ended after %v, want %v", ended, want)
		}
		a.Put(second)
	})
}
