package lock

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
)

// memberOnce returns a member of the group, once it is as wanted; nil stands for none.
func memberOnce(t *testing.T, v *recipes.View, wanted func(*recipes.Member) bool) *recipes.Member {
	t.Helper()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	for {
		changed := v.Changes()
		var one *recipes.Member
		for _, m := range v.Members(nil) {
			one = &m
		}
		if wanted(one) {
			return one
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatalf("got %+v, and nothing better came", one)
		}
	}
}

func viewOf(t *testing.T, c *client.Client) *recipes.View {
	t.Helper()
	v, err := recipes.NewGroup(c.Tree(), "/services/job").View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

func TestRegister(t *testing.T) {
	c := clitest.StartTree(t)
	_, tr := clitest.OpenTree(t, c)
	v := viewOf(t, c)
	healthy := filepath.Join(t.TempDir(), "healthy")
	l := clitest.StartProgram(t, "register", "echo $HOLDFAST_MEMBER; cat; exit 6", "--address", "10.0.0.7:80", "--id",
		"one", "--label", "zone=a", "--check", "test -e "+healthy, "--check-interval", "50ms", "--timeout", "1m")
	l.Expect("/services/job/one")
	is := memberOnce(t, v, func(m *recipes.Member) bool { return m != nil })
	if is.ID != "one" || is.Address != "10.0.0.7:80" || is.Labels["zone"] != "a" || is.Health != recipes.Critical {
		t.Errorf("got %+v", is)
	}
	if err := os.WriteFile(healthy, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	memberOnce(t, v, func(m *recipes.Member) bool { return m != nil && m.Health == recipes.Passing })
	if err := os.Remove(healthy); err != nil {
		t.Fatal(err)
	}
	memberOnce(t, v, func(m *recipes.Member) bool { return m != nil && m.Health == recipes.Critical })
	clitest.InTime(t, func(limit string) string {
		code, _, stderr := clitest.Execute(t, "", "register", "job", "--id", "one", "--wait", limit, "--", "true")
		if code != cli.ExitFailed || !strings.Contains(stderr, "not registered within --wait "+limit) ||
			!strings.Contains(stderr, is.Session.String()) {
			return fmt.Sprintf("a second one: exit code %d, %s", code, stderr)
		}
		return ""
	})
	if _, err := tr.Delete(t.Context(), "/services/job/one"); err != nil {
		t.Fatal(err)
	}
	memberOnce(t, v, func(m *recipes.Member) bool { return m != nil && m.Token > is.Token && m.Session == is.Session })
	if said := l.End(6); !strings.Contains(said, "removed by another client") {
		t.Errorf("got %s", said)
	}
	memberOnce(t, v, func(m *recipes.Member) bool { return m == nil })
	l = clitest.StartProgram(t, "register", "echo runs; cat")
	l.Expect("runs")
	is = memberOnce(t, v, func(m *recipes.Member) bool { return m != nil })
	if !strings.HasSuffix(is.ID, fmt.Sprintf(":%d", l.Cmd.Process.Pid)) || is.Health != recipes.Passing {
		t.Errorf("got %+v", is)
	}
	l.End(0)
	for args, says := range map[string]string{
		"register":                                     "SERVICE -- COMMAND",
		"register job true":                            "SERVICE -- COMMAND",
		"register / -- true":                           "below /",
		"register job --id a/b -- true":                "without a slash",
		"register job sh -c true":                      `come after "--"`,
		"register job --label =x -- true":              "label",
		"register job --label a=1 --label a=2 -- true": "twice",
		"register job --check-interval 0s -- true":     "--check-interval",
		"register job --check-interval 1s -- true":     "for --check",
		"register job --wait 0s -- true":               "--wait",
		"register job --timeout 0s -- true":            "--timeout",
	} {
		if code, _, stderr := clitest.Execute(t, "", strings.Fields(args)...); code != cli.ExitUsage ||
			!strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
	if code, _, stderr := clitest.Execute(t, "", "register", "job", "--", "/"); code != 126 {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// A registration that has expired comes back, in another session, and the program runs on.
func TestRegisteredAgain(t *testing.T) {
	v := viewOf(t, clitest.StartTree(t))
	l := clitest.StartProgram(t, "register", "echo runs; read line; echo still runs", "--timeout", "2s", "--id", "one")
	l.Expect("runs")
	first := memberOnce(t, v, func(m *recipes.Member) bool { return m != nil })
	if err := l.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	memberOnce(t, v, func(m *recipes.Member) bool { return m == nil })
	if err := l.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	memberOnce(t, v, func(m *recipes.Member) bool { return m != nil && m.Session != first.Session })
	fmt.Fprintln(l.In)
	l.Expect("still runs")
	if said := l.End(0); !strings.Contains(said, "registered again") {
		t.Errorf("got %s", said)
	}
}
