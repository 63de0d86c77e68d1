package sim

import (
	"context"
	"sync"
	"time"

	"holdfast/client"
	"holdfast/test/sim/history"
)

// Flood implements faults.World: one process opens all sessions at once, and vanishes when ctx ends.
func (w *world) Flood(ctx context.Context, sessions int) int {
	x := w.tenant(w.guest("f"))
	var (
		opening sync.WaitGroup
		mu      sync.Mutex
		opened  []*client.Session // guarded by mu
	)
	for range sessions {
		opening.Go(func() {
			sent := w.record.Now()
			s, err := x.client.Open(ctx, client.SessionOptions{Timeout: x.between(4*time.Second, 6*time.Second)})
			if err != nil {
				return // opened or not, no client keeps the session
			}
			w.record.Add(x.event(history.Opened, s, sent))
			mu.Lock()
			defer mu.Unlock()
			opened = append(opened, s)
		})
	}
	opening.Wait()
	<-ctx.Done()
	w.Network.Kill(x.name)
	for _, s := range opened {
		w.record.Add(history.Event{Kind: history.Silent, Who: x.name, ID: s.ID(), Attachment: s.Token().Attachment})
	}
	x.stop()
	return len(opened)
}
