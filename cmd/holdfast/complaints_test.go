package main

import (
	"bytes"
	"strings"
	"sync"
	"time"
)

// complaints are what a process writes to its standard error. Safe for concurrent use.
type complaints struct {
	mu  sync.Mutex
	all bytes.Buffer // guarded by mu
}

func (c *complaints) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.Write(b)
}

func (c *complaints) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.String()
}

// complains waits until the process has written something to its standard error.
func (l *locking) complains(want string) {
	l.t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(l.stderr.String(), want); {
		if time.Now().After(end) {
			l.t.Fatalf("waiting for %q; got %s", want, l.stderr.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
}
