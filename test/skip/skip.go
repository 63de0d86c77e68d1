// Package skip skips tests that a machine cannot run. CI must run each of them.
package skip

import (
	"fmt"
	"os"
	"testing"
)

// Test skips a test and says why. It fails the test where the environment has CI.
func Test(tb testing.TB, why ...any) {
	tb.Helper()
	text := fmt.Sprint(why...)
	if os.Getenv("CI") != "" { //nolint:forbidigo // only the environment says that CI must not skip the test
		tb.Fatal("CI must run this test: " + text)
	}
	tb.Skip("NOT RUN: " + text)
}
