//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fence_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"holdfast/fence"
)

// TestMain runs the tests, or what a child process does. Without PostgreSQL it leaves out the examples that need it;
// TestPostgreSQLIsHere says so.
func TestMain(m *testing.M) {
	if of, ok := os.LookupEnv(fence.Child); ok {
		if err := fence.RunChild(of); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if _, err := programs(); err != nil {
		skip := flag.Lookup("test.skip").Value.String()
		if skip != "" {
			skip += "|"
		}
		if err := flag.Set("test.skip", skip+"_postgreSQL"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if err := endServer(); err != nil {
		fmt.Fprintln(os.Stderr, "end PostgreSQL:", err)
		code = 1
	}
	os.Exit(code)
}
