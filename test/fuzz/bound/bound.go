// Package bound bounds what one input may cost a fuzz target: memory in proportion to the input's size, and time. A
// decoder that trusts a length from the wire, or a loop that never ends, exceeds the bound, and the fuzzing engine
// keeps the input.
package bound

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// Cost is what an input of n bytes may take: PerByte*n + Fixed bytes of allocations, and Time. Time 0 is a minute:
// only a hang takes that long, also on a busy machine.
type Cost struct {
	PerByte, Fixed uint64
	Time           time.Duration
}

const defaultTime = time.Minute

// Hold calls f, which works on an input of size bytes, and fails tb when the process allocates more than c allows
// meanwhile. Memory that was freed again counts too. When f takes too long, Hold ends the process with the stacks of
// all goroutines, because nothing else ends a loop; the fuzzing engine keeps the input. Hold measures real time, so do
// not call it in a synctest bubble.
func (c Cost) Hold(tb testing.TB, size int, f func()) {
	tb.Helper()
	limit := c.Time
	if limit <= 0 {
		limit = defaultTime
	}
	hung := time.AfterFunc(limit, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("an input of %d bytes is not done after %v", size, limit))
	})
	defer hung.Stop()
	allowed := c.PerByte*uint64(size) + c.Fixed
	if took := allocated(f); took > allowed {
		tb.Errorf("an input of %d bytes allocated %d bytes, want at most %d", size, took, allowed)
	}
}

// allocated returns how many bytes the process allocates while f runs.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
