package play

import (
	"context"
	"sync"
	"time"

	"holdfast/bench/system"
)

// keeping touches all sessions of some connections again and again.
type keeping struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// keep touches each connection once in every period, one after the other at even distances. Sessions that are opened
// later are kept too.
func keep(ctx context.Context, conns []system.Conn, every time.Duration) *keeping {
	k := &keeping{}
	ctx, k.cancel = context.WithCancel(ctx)
	k.done.Go(func() {
		turn := time.NewTicker(every / time.Duration(len(conns)))
		defer turn.Stop()
		for i := 0; ; i++ {
			select {
			case <-turn.C:
				conns[i%len(conns)].Touch(func(error) {}) // the works that report lost sessions count them in the end
			case <-ctx.Done():
				return
			}
		}
	})
	return k
}

// stop ends the touches. It may be called again.
func (k *keeping) stop() {
	k.cancel()
	k.done.Wait()
}
