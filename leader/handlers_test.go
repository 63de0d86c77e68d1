package leader

import (
	"testing"
	"testing/synctest"

	"holdfast/test/bubble"
)

// stop waits for the handlers that run, and no handler starts from then on.
func TestHandlersStop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var h handlers
		release, stopped := make(chan struct{}), make(chan struct{})
		if !h.start(func() { <-release }) {
			t.Fatal("no handler starts before stop")
		}
		go func() {
			h.stop()
			close(stopped)
		}()
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("stop returned while a handler was running")
		default:
		}
		if h.start(func() { t.Error("a handler runs after stop") }) {
			t.Error("a handler started after stop")
		}
		close(release)
		<-stopped
	})
}
