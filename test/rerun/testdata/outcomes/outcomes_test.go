// Package outcomes has a test for each way in which a test of whole processes ends.
package outcomes

import (
	"context"
	"os"
	"testing"
	"time"

	"holdfast/test/timeout"
)

func never() (bool, string) { return false, "it is empty" }

func TestPasses(*testing.T) {}

func TestJudge(t *testing.T) { t.Error("two holders") }

// once times out when it is called for the first time with one value of ONCE.
func once(t *testing.T) {
	file := os.Getenv("ONCE")
	if _, err := os.Stat(file); err == nil {
		return
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	timeout.Until(t, 0, time.Millisecond, "the page", never)
}

func TestTimesOutOnce(t *testing.T) { once(t) }

func TestPart(t *testing.T) { t.Run("part", once) }

func TestTimesOut(t *testing.T) { timeout.Fatalf(t, "too late") }

func TestDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	timeout.Check(t, ctx.Err())
}

func TestTimesOutAndJudge(t *testing.T) {
	t.Cleanup(func() {
		if timeout.Ended(t) {
			t.Error("a lost write")
		}
	})
	once(t)
}

func TestPanics(t *testing.T) {
	var none []int
	t.Log(none[len(os.Args)])
}

func TestExits(*testing.T) { os.Exit(3) }
