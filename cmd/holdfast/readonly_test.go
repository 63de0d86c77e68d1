package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdfast/session"
)

// The output says when a read-only node answered. Without --read-only such a node answers nothing.
func TestReadOnlyAnswersAreNoted(t *testing.T) {
	n := startNode(t)
	n.isIn(session.ModeReadOnly)
	for _, args := range []string{"session ls --read-only", "session show --read-only 0x0100000000010007"} {
		code, stdout, stderr := execute(t, "", strings.Fields(args)...)
		if code != exitDone || !strings.Contains(stdout, "0x0100000000010007") ||
			stderr != "holdfast: answered by read-only node 1, at index 98\n" {
			t.Errorf("%s: exit code %d, %s\n%s", args, code, stderr, stdout)
		}
		inTime(t, func(limit string) string {
			code, stdout, stderr := execute(t, "",
				strings.Fields(strings.Replace(args, "--read-only", "--call-timeout "+limit, 1))...)
			if code != exitFailed || stdout != "" || !strings.Contains(stderr, session.ErrNoLeader.Error()) {
				return fmt.Sprintf("%s without --read-only: exit code %d, %s\n%s", args, code, stderr, stdout)
			}
			return ""
		})
	}
	for _, id := range []string{"0x0100000000010007", "0x0200000000020000"} { // a session, a certificate
		_, stdout, _ := execute(t, "", "session", "show", "--read-only", id, "-o", "json")
		var v foundView
		if err := json.Unmarshal([]byte(stdout), &v); err != nil || v.ReadOnly == nil ||
			*v.ReadOnly != (readOnlyView{Node: 1, Index: 98}) {
			t.Errorf("%s: %v in %s", id, err, stdout)
		}
	}
	_, stdout, _ := execute(t, "", "session", "ls", "--read-only", "-o", "json")
	var listed []listedView
	if err := json.Unmarshal([]byte(stdout), &listed); err != nil || len(listed) != 2 ||
		listed[0].ID != idText(livingID) {
		t.Fatalf("%v in %s", err, stdout)
	}
	for _, l := range listed {
		if l.ReadOnly == nil || *l.ReadOnly != (readOnlyView{Node: 1, Index: 98}) {
			t.Errorf("%s does not say which read-only node answered", stdout)
		}
	}
	n.isIn(session.ModeReadWrite)
	if _, stdout, _ = execute(t, "", "session", "ls", "--read-only", "-o", "json"); strings.Contains(stdout,
		"read_only") {
		t.Errorf("a read-write node is shown as read-only: %s", stdout)
	}
}

// No page of a list is older than the page before it (N4).
func TestN4PagesOfAListNeverGoBack(t *testing.T) {
	n := startNode(t)
	n.isIn(session.ModeReadWrite)
	if code, _, stderr := execute(t, "", "session", "ls"); code != exitDone {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if want := []uint64{0, 98}; !slices.Equal(n.seen, want) {
		t.Errorf("the lists' seen indexes are %d, want %d", n.seen, want)
	}
}
