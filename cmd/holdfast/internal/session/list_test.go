package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
	"holdfast/cmd/holdfast/internal/view"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// The client name comes from the flag, or else from the environment, and every call carries it. An invalid name is a
// usage error.
func TestClientName(t *testing.T) {
	n := fakenode.Start(t)
	for _, tt := range []struct{ variable, flag, want string }{
		{"", "", ""}, {"nightly", "", "nightly"}, {"nightly", "team a", "team a"},
	} {
		t.Setenv(cli.ClientNameVariable, tt.variable)
		args := []string{"session", "ls"}
		if tt.flag != "" {
			args = append(args, "--client-name", tt.flag)
		}
		if code, _, stderr := clitest.Execute(t, "", args...); code != cli.ExitDone {
			t.Fatalf("%v: exit %d: %s", args, code, stderr)
		}
		n.Mu.Lock()
		if n.ClientName != tt.want {
			t.Errorf("%+v: the node was told %q", tt, n.ClientName)
		}
		n.Mu.Unlock()
	}
	code, _, stderr := clitest.Execute(t, "", "session", "ls", "--client-name", "a\tb")
	if code != cli.ExitUsage || !strings.Contains(stderr, "client_name") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// The output says when a read-only node answered. Without --read-only such a node answers nothing.
func TestReadOnlyAnswersAreNoted(t *testing.T) {
	n := fakenode.Start(t)
	n.SetMode(session.ModeReadOnly)
	for _, args := range []string{"session ls --read-only", "session show --read-only 0x0100000000010007"} {
		code, stdout, stderr := clitest.Execute(t, "", strings.Fields(args)...)
		if code != cli.ExitDone || !strings.Contains(stdout, "0x0100000000010007") ||
			stderr != "holdfast: answered by read-only node 1, at index 98\n" {
			t.Errorf("%s: exit code %d, %s\n%s", args, code, stderr, stdout)
		}
		clitest.InTime(t, func(limit string) string {
			code, stdout, stderr := clitest.Execute(t, "",
				strings.Fields(strings.Replace(args, "--read-only", "--call-timeout "+limit, 1))...)
			if code != cli.ExitFailed || stdout != "" || !strings.Contains(stderr, session.ErrNoLeader.Error()) {
				return fmt.Sprintf("%s without --read-only: exit code %d, %s\n%s", args, code, stderr, stdout)
			}
			return ""
		})
	}
	for _, id := range []string{"0x0100000000010007", "0x0200000000020000"} { // a session, a certificate
		_, stdout, _ := clitest.Execute(t, "", "session", "show", "--read-only", id, "-o", "json")
		var v foundView
		if err := json.Unmarshal([]byte(stdout), &v); err != nil || v.ReadOnly == nil ||
			*v.ReadOnly != (readOnlyView{Node: 1, Index: 98}) {
			t.Errorf("%s: %v in %s", id, err, stdout)
		}
	}
	_, stdout, _ := clitest.Execute(t, "", "session", "ls", "--read-only", "-o", "json")
	var listed []listedView
	if err := json.Unmarshal([]byte(stdout), &listed); err != nil || len(listed) != 2 ||
		listed[0].ID != view.ID(fakenode.LivingID) {
		t.Fatalf("%v in %s", err, stdout)
	}
	for _, l := range listed {
		if l.ReadOnly == nil || *l.ReadOnly != (readOnlyView{Node: 1, Index: 98}) {
			t.Errorf("%s does not say which read-only node answered", stdout)
		}
	}
	n.SetMode(session.ModeReadWrite)
	if _, stdout, _ = clitest.Execute(t, "", "session", "ls", "--read-only", "-o", "json"); strings.Contains(stdout,
		"read_only") {
		t.Errorf("a read-write node is shown as read-only: %s", stdout)
	}
}

// No page of a list is older than the page before it (N4 seen index).
func TestN4PagesOfAListNeverGoBack(t *testing.T) {
	n := fakenode.Start(t)
	n.SetMode(session.ModeReadWrite)
	if code, _, stderr := clitest.Execute(t, "", "session", "ls"); code != cli.ExitDone {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if want := []uint64{0, 98}; !slices.Equal(n.Seen, want) {
		t.Errorf("the lists' seen indexes are %d, want %d", n.Seen, want)
	}
}

func TestFiltersReachTheCluster(t *testing.T) {
	n := fakenode.Start(t)
	code, _, stderr := clitest.Execute(t, "", "session", "ls", "--owner", "3", "--label", "service=web", "--label", "zone",
		"--min-age", "1s", "--max-age", "2s", "--min-remaining", "3s", "--max-remaining", "4s", "--scope", "local")
	f := n.Filter
	if code != cli.ExitDone || f.GetOwner() != 3 || f.GetLabels()["service"] != "web" || len(f.GetLabels()) != 2 ||
		f.GetMinAge().AsDuration() != time.Second || f.GetMaxAge().AsDuration() != 2*time.Second ||
		f.GetMinRemaining().AsDuration() != 3*time.Second || f.GetMaxRemaining().AsDuration() != 4*time.Second ||
		f.GetScope() != holdfastv1.Scope_SCOPE_LOCAL {
		t.Errorf("exit code %d, %s, filter %v", code, stderr, f)
	}
}

// --sort-by remaining asks for one page, in the leader's order.
func TestSessionsSortedByRemainingTime(t *testing.T) {
	n := fakenode.Start(t)
	code, stdout, stderr := clitest.Execute(t, "", "session", "ls", "--sort-by", "remaining", "--limit", "7")
	if code != cli.ExitDone || n.Order != holdfastv1.SessionOrder_SESSION_ORDER_REMAINING || n.PageSize != 7 ||
		strings.Count(stdout, "0x") != 1 {
		t.Errorf("exit code %d, %s%s, order %v, %d sessions", code, stdout, stderr, n.Order, n.PageSize)
	}
	if code, _, stderr = clitest.Execute(t, "", "session", "ls", "--sort-by", "remaining", "--limit",
		"1001"); code != cli.ExitUsage ||
		!strings.Contains(stderr, "at most 1000") {
		t.Errorf("of too many: exit code %d, %s", code, stderr)
	}
}
