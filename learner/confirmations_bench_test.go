package learner

import (
	"sync"
	"testing"
	"time"
)

// BenchmarkConfirm measures what a touch pays to wait for its confirmation, while other connections do the same on
// every processor, and heartbeats come as often as they do at a node: at 50,000 touches a second a node pays it 50,000
// times.
func BenchmarkConfirm(b *testing.B) {
	for name, others := range map[string]int{"alone": 0, "beside one": 1, "beside three": 3} {
		b.Run(name, func(b *testing.B) {
			table := NewTouchTable()
			c := newConfirmations(table, nil, nil)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			going := func() bool {
				select {
				case <-stop:
					return false
				default:
					return true
				}
			}
			for range others {
				wg.Go(func() {
					for going() {
						c.await(func() {})
					}
				})
			}
			wg.Go(func() {
				for ticker := time.NewTicker(time.Millisecond); going(); <-ticker.C {
					first := table.nextTag()
					table.confirm(confirmedUpTo(first), nil)
					c.removeDone()
				}
			})
			for b.Loop() {
				c.await(func() {})
			}
			close(stop)
			wg.Wait()
		})
	}
}
