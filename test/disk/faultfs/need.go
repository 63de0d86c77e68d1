package faultfs

import (
	"os"
	"testing"
)

// Need skips a test where disks cannot be mounted, and says why. With CI set it fails the test.
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
	case os.Getenv("CI") != "": //nolint:forbidigo // only the environment says that CI must not skip the test
		tb.Fatalf("disks cannot be mounted here, and CI must run this test: %s", why)
	default:
		tb.Skipf("NOT RUN: disks cannot be mounted here: %s", why)
	}
}
