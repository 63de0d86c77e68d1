package main

import (
	"strings"
	"testing"

	holdfastv1 "holdfast/proto/holdfast/v1"
)

// --soonest asks for one page, in the leader's order.
func TestSoonest(t *testing.T) {
	n := startNode(t)
	code, stdout, stderr := execute(t, "", "session", "ls", "--soonest", "7")
	if code != exitDone || n.order != holdfastv1.SessionOrder_SESSION_ORDER_REMAINING || n.pageSize != 7 ||
		strings.Count(stdout, "0x") != 1 {
		t.Errorf("exit code %d, %s%s, order %v, %d sessions", code, stdout, stderr, n.order, n.pageSize)
	}
	if code, _, stderr = execute(t, "", "session", "ls", "--soonest", "1001"); code != exitUsage ||
		!strings.Contains(stderr, "0 to 1000") {
		t.Errorf("of too many: exit code %d, %s", code, stderr)
	}
}
