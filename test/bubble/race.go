//go:build race

package bubble

import (
	"runtime"
	"sync"
)

// Race reports whether the race detector is on. With it everything takes ten times as long.
const Race = true

// open is the number of open bubbles, and the number of processors before the first of them.
var open struct {
	sync.Mutex

	running, processors int
}

// alone leaves the process one processor until undo is called.
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
