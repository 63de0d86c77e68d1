package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/test/bubble"
)

// stalled is a writer that accepts nothing until it is released.
type stalled struct {
	released chan struct{}
	took     bytes.Buffer
}

func (s *stalled) Write(b []byte) (int, error) {
	<-s.released
	return s.took.Write(b)
}

// Messages for a writer that accepts nothing block no caller, are written once it accepts bytes, and are bounded in
// number. Dropped messages are reported.
func TestMessagesNeverBlock(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &stalled{released: make(chan struct{})}
		r := &messageQueue{to: w}
		r.add("first\n")
		synctest.Wait() // the writer has the first
		for i := range maxMessages + 3 {
			r.add(fmt.Sprintf("%d\n", i))
		}
		began := time.Now()
		if r.flush(); time.Since(began) != flushTimeout {
			t.Errorf("waited %v for a writer that takes nothing, want %v", time.Since(began), flushTimeout)
		}
		close(w.released)
		began = time.Now()
		if r.flush(); time.Since(began) != 0 {
			t.Errorf("waited %v for a writer that takes everything", time.Since(began))
		}
		lines := strings.Split(strings.TrimSuffix(w.took.String(), "\n"), "\n")
		if len(lines) != maxMessages+2 || lines[0] != "first" || lines[1] != "0" ||
			!strings.Contains(lines[len(lines)-1], " 3 messages were dropped") {
			t.Errorf("got %q, want the first, %d and that 3 were dropped", lines, maxMessages)
		}
		w.took.Reset()
		r.add("last\n")
		if r.flush(); w.took.String() != "last\n" {
			t.Errorf("got %q, want another remark alone", w.took.String())
		}
	})
}
