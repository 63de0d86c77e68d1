package ui

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/test/skip"
	"holdfast/test/timeout"
)

// screenBound bounds the wait for what a screen shows.
const screenBound = 30 * time.Second

// terminal is a terminal in a tmux of its own, in which a program runs.
type terminal struct {
	t      *testing.T
	socket string
}

// inTerminal runs a command line in a terminal of 80 x 24. When the command has ended, the screen says how.
func inTerminal(t *testing.T, line string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		skip.Test(t, "no tmux: install it (Debian: tmux) to run the tests of holdfast top")
	}
	x := &terminal{t, filepath.Join(t.TempDir(), "tmux")}
	x.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", line+`; echo "ended with $?"; exec cat`)
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", x.socket, "kill-server").Run() }) // it may be gone
	return x
}

// tmux runs a command of tmux.
func (x *terminal) tmux(args ...string) string {
	x.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", x.socket}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TERM=xterm-256color")
	out, err := cmd.CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

// press presses keys by the names that tmux has for them, one after the other. An escape is no beginning of another
// key: tmux waits a moment behind it.
func (x *terminal) press(keys ...string) {
	x.t.Helper()
	for _, k := range keys {
		x.tmux("send-keys", k)
	}
}

// screen returns what the terminal shows.
func (x *terminal) screen() string { return x.tmux("capture-pane", "-p") }

// until waits until the screen is as wanted.
func (x *terminal) until(what string, ok func(screen string) bool) string {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), screenBound)
	defer cancel()
	for {
		screen := x.screen()
		if ok(screen) {
			return screen
		}
		select {
		case <-ctx.Done():
			timeout.Fatalf(x.t, "the screen does not show %s within %v:\n%s", what, screenBound, screen)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// shows waits for a text, and lacks until a text is gone.
func (x *terminal) shows(text string) string {
	x.t.Helper()
	return x.until(fmt.Sprintf("%q", text), func(s string) bool { return strings.Contains(s, text) })
}

func (x *terminal) lacks(text string) {
	x.t.Helper()
	x.until("no "+text, func(s string) bool { return !strings.Contains(s, text) })
}

// program builds the command line.
func program(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "holdfast")
	build := exec.Command("go", "build", "-o", file, "./cmd/holdfast")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the command line: %v: %s", err, out)
	}
	return file
}

// TestTop drives holdfast top in a terminal over three nodes, one of which goes away.
func TestTop(t *testing.T) {
	file := program(t)
	c := begin(t, nil)
	cl := c.connect(t)
	open := func(lasts time.Duration, label string) *client.Session {
		t.Helper()
		s, err := cl.Open(t.Context(), client.SessionOptions{Timeout: lasts, Labels: map[string]string{"service": label}})
		timeout.Check(t, err)
		return s
	}
	first := open(20*time.Second, "first")
	open(40*time.Second, "second")
	open(39*time.Second, "\x1b[2Jcleared")
	var endpoints []string
	for i := range c.configs {
		endpoints = append(endpoints, c.configs[i].Listen.Client)
	}
	x := inTerminal(t, file+" top --interval 300ms --endpoints "+strings.Join(endpoints, ","))

	// The first picture: nodes, and the sessions in the order of their ends. What a client wrote is only text.
	x.shows("service=second")
	screen := x.until("all nodes", func(s string) bool { return strings.Count(s, " yes") == 3 })
	leader := c.leader(t) + 1
	for _, want := range []string{
		fmt.Sprintf("node %d leads term", leader), "3 of 2,000,000 sessions", "opens", "log entries", first.ID().String(),
		`\x1b[2Jcleared`, "q quit",
	} {
		if !strings.Contains(screen, want) {
			t.Errorf("no %q on the first screen:\n%s", want, screen)
		}
	}
	if n := strings.Count(screen, "\n"); n != 24 {
		t.Errorf("a screen of %d lines", n)
	}
	if strings.Index(screen, "service=first") > strings.Index(screen, "service=second") {
		t.Errorf("the session with the shorter timeout is not first:\n%s", screen)
	}

	// Rates: what happens shows as a rate.
	x.until("a rate of opens", func(s string) bool {
		open(20*time.Second, "more")
		return strings.Contains(s, "opens") && !strings.Contains(s, "opens            0.0/s") && strings.Contains(s, "█")
	})

	// A label is asked of the cluster, and the detail says why the session lives.
	x.press("/")
	x.shows("/_  a text")
	x.tmux("send-keys", "-l", "service=second")
	x.press("Enter")
	x.until("one session", func(s string) bool {
		return strings.Contains(s, "filter: service=second") && !strings.Contains(s, "service=first")
	})
	x.press("Enter")
	x.shows("is alive. Its timeout is 40s")
	x.press("BSpace")
	x.lacks("is alive. Its")
	x.press("Escape")
	x.shows("service=first")

	// The busiest clients are those of all nodes.
	x.press("2")
	x.until("the test's own connection", func(s string) bool {
		return strings.Contains(s, "REQUESTS/S") && strings.Contains(s, "127.0.0.1:") && strings.Contains(s, "grpc")
	})
	x.press("Enter")
	x.shows("speaks grpc with node")
	x.press("BSpace")

	// Deaths come, and say why.
	timeout.Check(t, first.Close(t.Context()))
	x.press("3")
	x.shows("closed")
	x.press("Enter")
	x.shows(" ended at ")
	x.press("BSpace")

	// While it is paused nothing changes.
	x.press("1", "p")
	x.shows("PAUSED")
	still := x.screen()
	open(10*time.Second, "late")
	if now := x.screen(); now != still {
		t.Errorf("paused, it changed from\n%s\nto\n%s", still, now)
	}
	x.press("p")
	x.shows("service=late")

	// The leader goes: the node is silent, and another one leads.
	c.nodes[leader-1].stop(t)
	screen = x.until("the next leader", func(s string) bool {
		return strings.Contains(s, "leads term") && !strings.Contains(s, fmt.Sprintf("node %d leads", leader)) &&
			strings.Contains(s, "silent")
	})
	if !strings.Contains(screen, "! "+c.configs[leader-1].Listen.Client) {
		t.Errorf("no alarm for the node that is gone:\n%s", screen)
	}

	// It follows the size of the terminal, and leaves the screen as it was.
	x.tmux("resize-window", "-x", "120", "-y", "40")
	x.until("the wide screen", func(s string) bool { return strings.Count(s, "\n") == 40 && strings.Contains(s, "q quit") })
	x.press("q")
	screen = x.shows("ended with 0")
	if strings.Contains(screen, "leads term") {
		t.Errorf("the picture is left behind:\n%s", screen)
	}
}
