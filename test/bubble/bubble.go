// Package bubble runs tests in bubbles of [testing/synctest].
package bubble

import (
	"testing"
	"testing/synctest"
)

// Test is [synctest.Test]. Under the race detector it lets the process have one processor meanwhile: timers of one
// bubble that fire on two at the same moment share the race detector's notion of who runs them, and ThreadSanitizer
// ends the process with "CHECK failed" (golang/go#78156). What races is found all the same: that follows from what is
// ordered by synchronisation, not from what happens to run at the same time. Safe for concurrent use.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	defer alone()()
	synctest.Test(t, f)
}
