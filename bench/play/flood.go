package play

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"holdfast/bench/system"
)

// request makes the i-th of many requests, and calls done with the outcome.
type request func(i int, done func(error))

// outcome is the result of many requests.
type outcome struct {
	elapsed time.Duration
	// took are the times of the requests, sorted; refused ones count until they are done.
	took []time.Duration
	// refused counts refusals with a time at which to come back.
	refused int
}

func (o *outcome) rate() float64 { return float64(len(o.took)) / o.elapsed.Seconds() }

func (o *outcome) sort() { slices.Sort(o.took) }

// at returns a quantile of the times.
func (o *outcome) at(q float64) time.Duration {
	return o.took[min(len(o.took)-1, int(q*float64(len(o.took))))]
}

// flood makes n requests, at most flight at a time. It repeats those that are refused for a while, at the moment that
// the refusal names. The first other error ends it. With n = 0 it returns at once.
func flood(ctx context.Context, n, flight int, do request) (*outcome, error) {
	if n == 0 {
		return &outcome{}, nil
	}
	f := &flooding{n: n, do: do, ended: make(chan struct{}), took: make([]time.Duration, n)}
	begin := time.Now()
	for range min(flight, n) {
		f.next()
	}
	select {
	case <-f.ended:
	case <-ctx.Done():
		f.fail(context.Cause(ctx))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	o := &outcome{elapsed: time.Since(begin), took: f.took, refused: f.refused}
	o.sort()
	return o, nil
}

// flooding is a running flood.
type flooding struct {
	n     int
	do    request
	ended chan struct{}

	mu sync.Mutex
	// begun and done count requests; all guarded by mu.
	begun, done, refused int
	took                 []time.Duration
	err                  error
}

func (f *flooding) next() {
	f.mu.Lock()
	i := f.begun
	if i == f.n || f.err != nil {
		f.mu.Unlock()
		return
	}
	f.begun++
	f.mu.Unlock()
	f.ask(i, time.Now())
}

func (f *flooding) ask(i int, begin time.Time) {
	f.do(i, func(err error) {
		if refused, ok := errors.AsType[*system.RefusedError](err); ok {
			f.mu.Lock()
			f.refused++
			f.mu.Unlock()
			time.AfterFunc(refused.After, func() { f.ask(i, begin) })
			return
		}
		if err != nil {
			f.fail(err)
			return
		}
		f.mu.Lock()
		f.took[i] = time.Since(begin)
		f.done++
		last := f.done == f.n && f.err == nil
		f.mu.Unlock()
		if last {
			close(f.ended)
			return
		}
		f.next()
	})
}

func (f *flooding) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && f.done < f.n {
		f.err = err
		if !closed(f.ended) {
			close(f.ended)
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
