//go:build race

package bubble

import (
	"runtime"
	"sync"
)

// Race says that the race detector is on, and everything takes ten times as long.
const Race = true

// open counts the bubbles that are, and is how many processors the process had before the first.
var open struct {
	sync.Mutex

	running, processors int
}

// alone takes all processors but one away until what it returns is called.
func alone() (undo func()) {
	open.Lock()
	defer open.Unlock()
	if open.running++; open.running == 1 {
		open.processors = runtime.GOMAXPROCS(1)
	}
	return func() {
		open.Lock()
		defer open.Unlock()
		if open.running--; open.running == 0 {
			runtime.GOMAXPROCS(open.processors)
		}
	}
}
