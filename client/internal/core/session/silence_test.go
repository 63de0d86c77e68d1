package session

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/client/internal/core/conn"
)

// The arithmetic of silence.go: there is time to answer the touch that renews a promise; the node is left before the
// end of the promise, at most 5/12 of the timeout after the former touch; and if 5/6 of the timeout are promised, two
// other nodes can be tried after that.
func TestSilenceArithmetic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		timeout := time.Duration(rapid.IntRange(100, 60_000).Draw(rt, "timeout")) * time.Millisecond
		safeFor := time.Duration(rapid.Int64Range(0, int64(timeout)).Draw(rt, "safe for"))
		sent := time.Unix(1000, 0)
		until := sent.Add(safeFor)
		by := renewBy(sent, safeFor, timeout, until)
		touch := touchIn(safeFor, timeout)
		switch room := until.Sub(by); {
		case room < timeout/answerPart:
			rt.Fatalf("the node is left %v before the end of the promise, want at least the time for an answer", room)
		case by.Sub(sent) > timeout*5/12:
			rt.Fatalf("the node is left after %v, later than 5/12 of the timeout", by.Sub(sent))
		case safeFor >= timeout*5/6 && room < 2*(timeout/conn.TryPart):
			rt.Fatalf("the node is left %v before the end of the promise, no time for two others", room)
		case by.Sub(sent)-touch < timeout/answerPart && room > timeout/answerPart:
			rt.Fatalf("the touch at %v has %v to be answered", touch, by.Sub(sent)-touch)
		case touch < timeout/minTouchPart || touch > timeout/TouchPart:
			rt.Fatalf("touched after %v of %v", touch, timeout)
		}
	})
}
