package session

import (
	"sync"
	"time"
)

// Pulse aligns the tickers of a process: tickers whose periods have a common multiple tick together. An idle process is
// then woken once for all of them, and each wake costs far more than the work of most tickers. The zero Pulse aligns
// nothing.
type Pulse struct{ base time.Time }

// NewPulse returns a pulse that counts from now.
func NewPulse() Pulse { return Pulse{time.Now()} }

// Ticker returns a ticker that ticks at the multiples of a period since the pulse began. So its first tick may come
// sooner than after one period. Stop ends it.
func (p Pulse) Ticker(every time.Duration) *Ticker {
	if p.base.IsZero() {
		p = NewPulse()
	}
	c := make(chan time.Time, 1)
	t := &Ticker{C: c, c: c, base: p.base, every: every}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(t.wait(), t.tick)
	return t
}

// Ticker is like a [time.Ticker], with ticks of a [Pulse]. Safe for concurrent use.
type Ticker struct {
	// C gets the ticks. It holds one tick: a tick that comes due before the receiver has taken the previous tick is
	// dropped.
	C    <-chan time.Time
	c    chan<- time.Time
	base time.Time

	mu sync.Mutex
	// every is the period, 0 after Stop. guarded by mu
	every time.Duration
	// timer is set for the next tick. guarded by mu
	timer *time.Timer
}

// Reset makes the ticker tick at the multiples of another period.
func (t *Ticker) Reset(every time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.every = every
	t.timer.Reset(t.wait())
}

// Stop ends the ticks. It does not close C.
func (t *Ticker) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.every = 0
	t.timer.Stop()
}

// wait returns the time until the next multiple of the period. Called with mu held.
func (t *Ticker) wait() time.Duration { return t.every - time.Since(t.base)%t.every }

func (t *Ticker) tick() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.every == 0 {
		return
	}
	select {
	case t.c <- time.Now():
	default:
	}
	t.timer.Reset(t.wait())
}
