//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// holdfast runs the command line against all nodes and returns what it printed and its exit code.
func (c *cluster) holdfast(stdin string, args ...string) (string, int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	cmd := c.cli(ctx, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		c.t.Logf("holdfast %v: %s", args, exit.Stderr)
		return string(out), exit.ExitCode()
	case err != nil:
		c.t.Fatal(err)
	}
	return string(out), 0
}

func (c *cluster) cli(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "../../bin/holdfast", args...)
	cmd.Env = append(os.Environ(), "HOLDFAST_ENDPOINTS="+strings.Join(c.endpoints(c.all()...), ","))
	return cmd
}

// shown is what "session hold -o json" prints: first the session, then its events.
type shown struct {
	ID, Token, Event string
	Node             int
}

// TestCommandLine holds a session with the command line, kills the node that serves it, and sees it move. Another session
// that nobody holds expires.
func TestCommandLine(t *testing.T) {
	c := up(t, 3)
	opened, code := c.holdfast("", "session", "open", "--timeout", "4s", "-o", "json")
	var left shown
	if err := json.Unmarshal([]byte(opened), &left); err != nil || code != 0 {
		t.Fatalf("open: exit %d, %q, %v", code, opened, err)
	}
	if out, code := c.holdfast(left.Token, "session", "touch", "--token", "-"); code != 0 {
		t.Errorf("touch: exit %d, %q", code, out)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	hold := c.cli(ctx, "session", "hold", "--timeout", "6s", "--label", "by=test", "-o", "json")
	out, err := hold.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func(want func(shown) bool) shown {
		t.Helper()
		for lines.Scan() {
			var s shown
			if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
				t.Fatalf("hold printed %q: %v", lines.Text(), err)
			}
			if want(s) {
				return s
			}
		}
		t.Fatal("hold ended before it printed what was waited for")
		return shown{}
	}
	held := next(func(s shown) bool { return s.ID != "" })
	served := next(func(s shown) bool { return s.Event == "connected" })
	c.kill(served.Node)
	if c.state(served.Node) == "running" {
		t.Errorf("node %d runs, and was killed", served.Node)
	}
	moved := next(func(s shown) bool { return s.Event == "connected" && s.Node != served.Node })
	t.Logf("session %s moved from node %d to node %d", held.ID, served.Node, moved.Node)

	if list, code := c.holdfast("", "session", "ls", "--label", "by=test", "-o", "json"); code != 0 || !strings.Contains(list, held.ID) {
		t.Errorf("ls: exit %d, %q; want session %s", code, list, held.ID)
	}
	c.await(20*time.Second, "the session that nobody holds expires", func() (bool, string) {
		out, code := c.holdfast("", "session", "show", left.ID, "-o", "json")
		return code == 0 && strings.Contains(out, `"expired"`), out
	})
	if err := hold.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	next(func(s shown) bool { return s.Event == "ended" })
	if err := hold.Wait(); err != nil {
		t.Errorf("hold after Ctrl-C: %v, want exit code 0", err)
	}
	if out, code := c.holdfast("", "session", "show", held.ID, "-o", "json"); code != 0 || !strings.Contains(out, `"closed"`) {
		t.Errorf("show after Ctrl-C: exit %d, %q; want a certificate that says closed", code, out)
	}
	if out, code := c.holdfast(left.Token, "session", "close", "--token", "-"); code != 1 {
		t.Errorf("close of the dead session: exit %d, %q; want 1", code, out)
	}
}
