package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/test/sim/check"
	"holdfast/test/sim/history"
)

// pass sometimes raises or lowers the barrier, and waits until it is lowered. In its last turn it waits without a
// limit, and keeps lowering the barrier: calls from before the end of the last fault may raise it again.
//
//nolint:revive // flag-parameter: see rest
func (x *worker) pass(ctx context.Context, s *client.Session, last bool) bool {
	b := recipes.NewBarrier(s, gatePath)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var lowering sync.WaitGroup
	defer lowering.Wait()
	defer cancel()
	switch {
	case last:
		lowering.Go(func() {
			for ctx.Err() == nil {
				x.moveGate(ctx, s, b.Lower, check.Lower)
				sleep(ctx, 2*time.Second)
			}
		})
	case x.draw(3) == 0:
		x.moveGate(ctx, s, b.Raise, check.Raise)
	case x.draw(2) == 0:
		x.moveGate(ctx, s, b.Lower, check.Lower)
	}
	waiting, stop := ctx, context.CancelFunc(func() {})
	if !last {
		waiting, stop = context.WithTimeout(ctx, x.between(100*time.Millisecond, 6*time.Second))
	}
	defer stop()
	sent := x.w.record.Now()
	return x.used(s, sent, history.Use{Path: gatePath, Verb: check.Wait}, b.Wait(waiting))
}

func (x *worker) moveGate(ctx context.Context, s *client.Session, move func(context.Context) error, verb string) {
	ctx, cancel := context.WithTimeout(ctx, givesUp)
	defer cancel()
	sent := x.w.record.Now()
	x.used(s, sent, history.Use{Path: gatePath, Verb: verb}, move(ctx))
}

// meet enters the double barrier with all other workers, repeatedly. After the last fault a worker continues until all
// have met once, because no worker can meet alone.
func (x *worker) meet(ctx context.Context, s *client.Session) bool {
	for ctx.Err() == nil && s.Err() == nil {
		x.runs()
		last := x.isLast()
		if x.takes(ctx, s, x.together, last) && last && !x.metLast {
			x.metLast = true
			x.hadLast(s, meetPath)
			if x.yard.missing.Add(-1) == 0 {
				close(x.yard.met)
			}
		}
		select {
		case <-x.yard.met:
			return true
		default:
		}
		x.rest(ctx, last)
	}
	return false
}

// together enters and leaves the double barrier with the others.
//
//nolint:revive // flag-parameter: see rest
func (x *worker) together(ctx context.Context, s *client.Session, last bool) bool {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-x.yard.met: // no worker comes any more
			stop()
		case <-ended:
		}
	}()
	name := fmt.Sprintf("%s/%d", x.name, x.contest.calls.Add(1))
	b := recipes.NewDoubleBarrier(s, meetPath, workers, recipes.WithHolder(name))
	entering, cancel := x.withTimeout(ctx, last)
	defer cancel()
	sent := x.w.record.Now()
	inside, err := b.Enter(entering)
	if !x.used(s, sent, history.Use{Path: meetPath, Verb: check.Enter, Data: name, Number: workers}, err) {
		return false
	}
	if !last {
		x.wait(ctx, x.between(0, 2*time.Second))
	}
	x.runs()
	leaving, cancel := x.withTimeout(ctx, last)
	defer cancel()
	sent = x.w.record.Now()
	return x.used(s, sent, history.Use{Path: meetPath, Verb: check.Leave, Data: name}, inside.Leave(leaving))
}
