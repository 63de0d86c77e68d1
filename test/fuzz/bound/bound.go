// Package bound holds fuzz targets to what one input may cost: memory in proportion to its size, and a time in which it
// is done. A decoder that believes a length from the wire, or a loop that never ends, fails there with the input that
// showed it.
package bound

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// Cost is what an input of n bytes may take: PerByte*n + Fixed bytes of allocations, and Time. Zero Time is ten
// seconds, which nothing but a hang takes, on a machine that is busy with other things too.
type Cost struct {
	PerByte, Fixed uint64
	Time           time.Duration
}

const defaultTime = 10 * time.Second

// Hold calls f, which works on an input of size bytes, and fails tb when it has allocated more than c allows: all that
// the process has allocated meanwhile, also what was freed again. When f is not done in time it ends the process with
// the stacks of all goroutines: there is no other way out of a loop, and the fuzzing engine keeps the input of a
// process that ended. Not to be called in a synctest bubble, whose time is another.
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

// allocated returns the bytes that were allocated while f ran.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
