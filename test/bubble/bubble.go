// Package bubble runs tests in bubbles of [testing/synctest].
package bubble

import (
	"testing"
	"testing/synctest"
)

// Test is [synctest.Test]. Under the race detector it limits the process to one processor meanwhile. On two processors,
// timers of one bubble that fire at the same moment share the race detector's state, and ThreadSanitizer ends the
// process with "CHECK failed" (golang/go#78156). Races are found all the same: the detector derives them from
// synchronisation, not from what happens to run at the same time. Safe for concurrent use.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	defer alone()()
	synctest.Test(t, f)
}
