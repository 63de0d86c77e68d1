package consensus

import (
	"testing"
	"testing/synctest"

	"holdfast/test/bubble"
)

// A goroutine that is held ends with release, and does nothing but its deferred calls.
func TestAHeldGoroutineEndsWithRelease(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := newHeld()
		ended, wentOn := make(chan struct{}), false
		go func() {
			defer close(ended)
			h.hold()
			wentOn = true
		}()
		synctest.Wait()
		select {
		case <-ended:
			t.Fatal("the goroutine ended before release")
		default:
		}
		h.release()
		h.release()
		<-ended
		if wentOn {
			t.Error("the goroutine went on after release")
		}
	})
}
