package faultfs

import (
	"os"
	"testing"

	"holdfast/test/skip"
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
	if why != "" {
		skip.Test(tb, "disks cannot be mounted here: ", why)
	}
}
