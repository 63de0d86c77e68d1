//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fence_test

import (
	"fmt"
	"os"
	"testing"

	"holdfast/fence"
)

// TestMain runs the tests, or the work of a child process.
func TestMain(m *testing.M) {
	if of, ok := os.LookupEnv(fence.Child); ok {
		if err := fence.RunChild(of); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
