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

	"holdfast/test/timeout"
)

// holdfast runs the command line against all nodes. It returns the output and the exit code.
func (c *cluster) holdfast(stdin string, args ...string) (string, int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), healWithin)
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
	cmd := exec.CommandContext(ctx, holdfastProgram, args...)
	cmd.Env = append(os.Environ(), "HOLDFAST_ENDPOINTS="+strings.Join(c.endpoints(c.all()...), ","))
	if as := c.speaks; as != nil {
		cmd.Env = append(cmd.Env, "HOLDFAST_CACERT="+as.CACert, "HOLDFAST_CERT="+as.Cert, "HOLDFAST_KEY="+as.Key)
	}
	return cmd
}

// shown is an object that "session keep-alive -o json" prints: first the session, then its events.
type shown struct {
	ID, Token, Event, Error string
	Node                    int
	SafeUntil               time.Time `json:"safe_until"`
}

// holder is a process of the command line that holds a session.
type holder struct {
	c     *cluster
	cmd   *exec.Cmd
	lines *bufio.Scanner
	// shown is everything that it printed.
	shown []shown
}

// hold starts a process that holds a new session. The process ends with the test.
func (c *cluster) hold(args ...string) *holder {
	c.t.Helper()
	args = append([]string{"session", "keep-alive", "-o", "json"}, args...)
	h := &holder{c: c, cmd: c.cli(c.t.Context(), args...)}
	out, err := h.cmd.StdoutPipe()
	timeout.Check(c.t, err)
	h.lines = bufio.NewScanner(out)
	timeout.Check(c.t, h.cmd.Start())
	return h
}

// next reads what the holder prints until want reports true.
func (h *holder) next(want func(shown) bool) shown {
	h.c.t.Helper()
	const most = time.Minute
	late := time.AfterFunc(most, func() { _ = h.cmd.Process.Kill() }) // ends the loop
	defer late.Stop()
	for h.lines.Scan() {
		var s shown
		if err := json.Unmarshal(h.lines.Bytes(), &s); err != nil {
			h.c.t.Fatalf("hold printed %q: %v", h.lines.Text(), err)
		}
		h.shown = append(h.shown, s)
		if want(s) {
			return s
		}
	}
	if !late.Stop() {
		timeout.Fatalf(h.c.t, "hold did not print the wanted event within %v; it printed %+v", most, h.shown)
	}
	h.c.t.Fatalf("hold ended before it printed the wanted event; it printed %+v", h.shown)
	return shown{}
}

// TestCommandLine holds a session with the command line, kills the node that serves it, and sees the session move.
// Another session, without a client, expires.
func TestCommandLine(t *testing.T) {
	c := up(t, 3)
	opened, code := c.holdfast("", "session", "open", "--timeout", "4s", "-o", "json")
	var left shown
	if err := json.Unmarshal([]byte(opened), &left); err != nil || code != 0 {
		t.Fatalf("open: exit %d, %q, %v", code, opened, err)
	}
	if out, code := c.holdfast(left.Token, "session", "touch", "--token-file", "-"); code != 0 {
		t.Errorf("touch: exit %d, %q", code, out)
	}

	hold := c.hold("--timeout", "6s", "--label", "by=test")
	held := hold.next(func(s shown) bool { return s.ID != "" })
	served := hold.next(func(s shown) bool { return s.Event == "connected" })
	c.kill(served.Node)
	if c.state(served.Node) == "running" {
		t.Errorf("node %d runs, and was killed", served.Node)
	}
	moved := hold.next(func(s shown) bool { return s.Event == "connected" && s.Node != served.Node })
	t.Logf("session %s moved from node %d to node %d", held.ID, served.Node, moved.Node)

	if list, code := c.holdfast("", "session", "ls", "--label", "by=test", "-o", "json"); code != 0 ||
		!strings.Contains(list, held.ID) {
		t.Errorf("ls: exit %d, %q; want session %s", code, list, held.ID)
	}
	c.await(healWithin, "the session that nobody holds expires", func() (bool, string) {
		out, code := c.holdfast("", "session", "show", left.ID, "-o", "json")
		return code == 0 && strings.Contains(out, `"expired"`), out
	})
	timeout.Check(t, hold.cmd.Process.Signal(os.Interrupt))
	hold.next(func(s shown) bool { return s.Event == "ended" })
	if err := hold.cmd.Wait(); err != nil {
		t.Errorf("hold after Ctrl-C: %v, want exit code 0", err)
	}
	if out, code := c.holdfast("", "session", "show", held.ID, "-o", "json"); code != 0 ||
		!strings.Contains(out, `"closed"`) {
		t.Errorf("show after Ctrl-C: exit %d, %q; want a certificate that says closed", code, out)
	}
	if out, code := c.holdfast(left.Token, "session", "close", "--token-file", "-"); code != 1 {
		t.Errorf("close of the dead session: exit %d, %q; want 1", code, out)
	}
	c.start(served.Node)
	c.awaitServing(healWithin, c.all()...)
}
