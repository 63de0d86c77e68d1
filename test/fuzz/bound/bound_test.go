package bound

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// recorder is a test that only notes whether it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestHoldMeasuresAllocations(t *testing.T) {
	var kept []byte
	for _, test := range []struct {
		size, allocate int
		fails          bool
	}{{10, 900, false}, {10, 64 << 10, true}, {64 << 10, 64 << 10, false}} {
		r := &recorder{TB: t}
		Cost{PerByte: 2, Fixed: 16 << 10}.Hold(r, test.size, func() { kept = make([]byte, test.allocate) })
		if r.failed != test.fails {
			t.Errorf("%d bytes allocated for an input of %d: failed %v, want %v", len(kept), test.size, r.failed,
				test.fails)
		}
	}
}

// An input that hangs ends the process. The test runs itself as a child process that hangs.
func TestHoldEndsAHang(t *testing.T) {
	const variable = "BOUND_TEST_HANG"
	if os.Getenv(variable) != "" {
		Cost{Fixed: 1 << 20, Time: 10 * time.Millisecond}.Hold(t, 1, func() { select {} })
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=30s")
	child.Env = append(os.Environ(), variable+"=1")
	out, err := child.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "not done after 10ms") {
		t.Errorf("the child ended with %v:\n%s", err, out)
	}
}
