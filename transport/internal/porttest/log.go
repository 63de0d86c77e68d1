package porttest

import (
	"bytes"
	"sync"
)

// LogBuffer collects log output. Safe for concurrent use.
type LogBuffer struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (b *LogBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.Write(p)
}

func (b *LogBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.String()
}
