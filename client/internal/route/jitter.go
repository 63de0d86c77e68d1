package route

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Jitter draws for the loop and for callers of the unary helpers.
type Jitter struct {
	mu   sync.Mutex
	rand *rand.Rand // guarded by mu
	// lowest and highest bound the cap of a back-off.
	lowest, highest time.Duration
}

// NewJitter returns a source of jitter whose back-offs have caps from lowest to highest.
func NewJitter(source rand.Source, lowest, highest time.Duration) *Jitter {
	return &Jitter{rand: rand.New(source), lowest: lowest, highest: highest}
}

// quickWaits is how many waits in a row are short. A fail-over takes about a tenth of a second: a client whose waits
// grew from the first on would wait longer than the cluster does.
const quickWaits = 3

// Backoff returns the n-th wait in a row, n from 1, with full jitter: short at first, then exponential.
func (d *Jitter) Backoff(n int) time.Duration { return d.BackoffBelow(n, d.highest) }

// BackoffBelow is Backoff capped at limit.
func (d *Jitter) BackoffBelow(n int, limit time.Duration) time.Duration {
	highest := d.highest
	if shift := max(n-quickWaits, 0); shift < 32 && d.lowest<<shift < d.highest {
		highest = d.lowest << shift
	}
	limit = max(min(highest, limit), 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.rand.Int64N(int64(limit)))
}

// Within returns a random time below limit.
func (d *Jitter) Within(limit time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.rand.Int64N(int64(limit)))
}

// Wait returns the n-th wait in a row after err: a back-off, on top of the server's retry time. So the wait is never
// shorter than the retry time, and clients with the same retry time return at different times.
func (d *Jitter) Wait(n int, err error) time.Duration { return Hint(err) + d.Backoff(n) }

// draw returns a number from 0 to below 1.
func (d *Jitter) draw() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.Float64()
}

// Shuffle puts s into a random order.
func (d *Jitter) Shuffle(s []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rand.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}
