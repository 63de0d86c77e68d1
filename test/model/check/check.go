// Package check has the tests that the models have in common: rules left out, small scopes seen whole, wide scopes
// walked at random, and pages results.md that say what was seen.
package check

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Bounds returns the time limit of each scope's search, and the largest number of states of one complete search. By
// default the time is 0: the tests are short enough for every run. TIME=10m lets each scope be searched for 10 minutes,
// and includes the large scopes. STATES=50000000 bounds the states; a state needs about 30 bytes.
func Bounds(tb testing.TB) (time.Duration, int) {
	tb.Helper()
	limit, states := time.Duration(0), 20_000_000
	if text, ok := setting("TIME"); ok {
		var err error
		if limit, err = time.ParseDuration(text); err != nil {
			tb.Fatalf("TIME=%s: %v", text, err)
		}
	}
	if text, ok := setting("STATES"); ok {
		var err error
		if states, err = strconv.Atoi(text); err != nil {
			tb.Fatalf("STATES=%s: %v", text, err)
		}
	}
	return limit, states
}

// setting returns a setting of the run, false if there is none.
func setting(name string) (string, bool) {
	text := os.Getenv(name) //nolint:forbidigo // only tests import this package
	return text, text != ""
}

// InResults requires a line in results.md of the package under test, so that the file shows what the tests find.
func InResults(tb testing.TB, format string, args ...any) {
	tb.Helper()
	text, err := os.ReadFile("results.md")
	if err != nil {
		tb.Fatal(err)
	}
	if line := fmt.Sprintf(format, args...); !strings.Contains(string(text), "\n"+line+"\n") {
		tb.Errorf("results.md lacks the line\n%s", line)
	}
}
