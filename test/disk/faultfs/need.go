package faultfs

import (
	"os"
	"testing"
)

// Need skips a test where disks cannot be mounted, and says why; under CI=true it fails it.
func Need(tb testing.TB) {
	tb.Helper()
	why := ""
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		why = err.Error()
	} else if err = f.Close(); err != nil {
		why = err.Error()
	}
	if os.Geteuid() != 0 {
		why = "only root mounts without fusermount"
	}
	switch {
	case why == "":
	case os.Getenv("CI") != "": //nolint:forbidigo // what CI must not leave out is known only from there
		tb.Fatalf("disks cannot be mounted here, and CI must: %s", why)
	default:
		tb.Skipf("NOT RUN: disks cannot be mounted here: %s", why)
	}
}
