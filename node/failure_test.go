package node

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"

	"holdfast/test/bubble"
)

func TestTheFirstFailureCounts(t *testing.T) {
	f := newFailure(hclog.NewNullLogger())
	if f.failed() || f.cause() != nil {
		t.Fatalf("failed without an error: %v", f.cause())
	}
	first := errors.New("first")
	f.fail(first)
	f.fail(errors.New("second"))
	<-f.happened
	if got := f.cause(); !f.failed() || !errors.Is(got, first) {
		t.Errorf("got %v, want %v", got, first)
	}
}

// A goroutine that is held ends with release, and does nothing but its deferred calls.
func TestAHeldGoroutineEndsWithRelease(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFailure(hclog.NewNullLogger())
		ended, wentOn := make(chan struct{}), false
		go func() {
			defer close(ended)
			f.hold()
			wentOn = true
		}()
		synctest.Wait()
		select {
		case <-ended:
			t.Fatal("the goroutine ended before release")
		default:
		}
		f.release()
		f.release()
		<-ended
		if wentOn {
			t.Error("the goroutine went on after release")
		}
	})
}
