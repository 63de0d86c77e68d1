package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/session"
)

// holding is a running "session hold".
type holding struct {
	lines  *bufio.Scanner
	code   chan int
	stop   context.CancelFunc
	stderr bytes.Buffer
}

func startHold(t *testing.T, args ...string) *holding {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	h := &holding{lines: bufio.NewScanner(r), code: make(chan int, 1), stop: cancel}
	go func() {
		code := run(ctx, append([]string{"session", "hold", "-o", "json"}, args...), strings.NewReader(""), w,
			&h.stderr)
		_ = w.Close()
		h.code <- code
	}()
	t.Cleanup(func() {
		cancel()
		_ = r.Close()
	})
	return h
}

// line reads one line into v.
func (h *holding) line(t *testing.T, v any) {
	t.Helper()
	if !h.lines.Scan() {
		t.Fatalf("no line: %s", h.stderr.String())
	}
	if err := json.Unmarshal(h.lines.Bytes(), v); err != nil {
		t.Fatalf("%v in %s", err, h.lines.Text())
	}
}

func TestHoldClosesOnInterrupt(t *testing.T) {
	n := startNode(t)
	h := startHold(t)
	var v heldView
	var e eventView
	h.line(t, &v)
	h.line(t, &e)
	if v.Token != tokenText || e.Event != "connected" || e.From != "connecting" || e.State != "connected" ||
		e.Address != n.address || e.SafeUntil == nil || e.Node != 1 {
		t.Errorf("got %+v, %+v", v, e)
	}
	h.stop()
	e = eventView{}
	h.line(t, &e)
	if code := <-h.code; code != exitDone || e.Event != "ended" || e.State != "closed" {
		t.Errorf("exit code %d, %s, %+v", code, h.stderr.String(), e)
	}
	if got := n.callsOfSessions(); !slices.Equal(got, []string{"open 10s ", "close"}) {
		t.Errorf("got %q", got)
	}
}

func TestHoldOpensALocalSession(t *testing.T) {
	n := startNode(t)
	h := startHold(t, "--local", "--keep")
	var v heldView
	h.line(t, &v)
	h.line(t, &eventView{})
	h.stop()
	if code := <-h.code; code != exitDone || v.Token != tokenText+".local" || !v.Local {
		t.Errorf("exit code %d, %s, %+v", code, h.stderr.String(), v)
	}
	if got := n.callsOfSessions(); !slices.Equal(got, []string{"open 10s local"}) {
		t.Errorf("got %q", got)
	}
}

func TestHoldKeepsTheSessionOfAToken(t *testing.T) {
	n := startNode(t)
	h := startHold(t, "--token-file", tokenFile(t, tokenText), "--keep")
	var v heldView
	h.line(t, &v)
	h.line(t, &eventView{})
	h.stop()
	if code := <-h.code; code != exitDone {
		t.Errorf("exit code %d, %s", code, h.stderr.String())
	}
	if got := n.callsOfSessions(); !slices.Equal(got, []string{"resume"}) {
		t.Errorf("got %q", got)
	}
}

func TestHoldFailsWhenTheSessionEndsOtherwise(t *testing.T) {
	n := startNode(t)
	h := startHold(t)
	h.line(t, &heldView{})
	h.line(t, &eventView{})
	n.moved()
	var e eventView
	h.line(t, &e)
	if code := <-h.code; code != exitFailed || e.Event != "moved" || e.Error == "" ||
		!strings.Contains(h.stderr.String(), "resumed") {
		t.Errorf("exit code %d, %s, %+v", code, h.stderr.String(), e)
	}
}

// With --read-only, hold names the read-only node and waits without a limit until it finds a read-write node.
func TestHoldWaitsAtAReadOnlyNode(t *testing.T) {
	n := startNode(t)
	n.isIn(session.ModeReadOnly)
	h := startHold(t, "--read-only", "--keep", "--call-timeout", "2s")
	var w waitingView
	h.line(t, &w)
	if w.State != "connected read-only" || w.Node != 1 || w.Index != 98 || w.Address != n.address {
		t.Errorf("got %+v", w)
	}
	time.AfterFunc(4*time.Second, func() { n.isIn(session.ModeReadWrite) }) // twice --call-timeout
	var v heldView
	h.line(t, &v)
	if v.Token != tokenText {
		t.Errorf("got %+v", v)
	}
	h.line(t, &eventView{})
	h.stop()
	if code := <-h.code; code != exitDone {
		t.Errorf("exit code %d, %s", code, h.stderr.String())
	}
}

// When hold loses its read-only node, it waits on beyond --call-timeout, and names the node that it finds next.
func TestHoldWaitsWhenItsReadOnlyNodeIsLost(t *testing.T) {
	n := startNode(t)
	n.isIn(session.ModeReadOnly)
	h := startHold(t, "--read-only", "--keep", "--call-timeout", "2s")
	var w waitingView
	h.line(t, &w)
	back := n.lose()
	lost := time.Now()
	time.AfterFunc(4*time.Second, back) // twice --call-timeout
	h.line(t, &w)
	if w.State != "connected read-only" || w.Address != n.address || time.Since(lost) < 4*time.Second {
		t.Errorf("got %+v after %v", w, time.Since(lost))
	}
	n.isIn(session.ModeReadWrite)
	var v heldView
	h.line(t, &v)
	h.line(t, &eventView{})
	h.stop()
	if code := <-h.code; code != exitDone || v.Token != tokenText {
		t.Errorf("exit code %d, %s, %+v", code, h.stderr.String(), v)
	}
}

func TestHoldWithoutLeaveDoesNotWaitAtAReadOnlyNode(t *testing.T) {
	n := startNode(t)
	n.isIn(session.ModeReadOnly)
	code, _, stderr := execute(t, "", "session", "hold", "--call-timeout", "2s")
	if code != exitFailed || !strings.Contains(stderr, session.ErrReadOnly.Error()) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
