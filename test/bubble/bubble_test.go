package bubble_test

import (
	"sync"
	"testing"
	"time"

	"holdfast/test/bubble"
)

// TestTimersOfOneMoment fires timers from several goroutines of a bubble at the same moment. With synctest alone, -race
// and two processors it ends the process in a few milliseconds.
func TestTimersOfOneMoment(t *testing.T) {
	for range 2 {
		t.Run("bubble", func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(*testing.T) {
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						for range 5000 {
							<-time.NewTimer(0).C
						}
					})
				}
				wg.Wait()
			})
		})
	}
}
