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
)

// holding is a session hold that runs.
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
		code := run(ctx, append([]string{"session", "hold", "-o", "json"}, args...), strings.NewReader(""), w, &h.stderr)
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
	if v.Token != tokenText || e.Event != "connected" || e.From != "connecting" || e.State != "connected" || e.Address != n.address || e.SafeUntil == nil || e.Node != 1 {
		t.Errorf("got %+v, %+v", v, e)
	}
	h.stop()
	e = eventView{}
	h.line(t, &e)
	if code := <-h.code; code != exitDone || e.Event != "ended" || e.State != "closed" {
		t.Errorf("exit code %d, %s, %+v", code, h.stderr.String(), e)
	}
	if got := n.calls(); !slices.Equal(got, []string{"open 10s ", "close"}) {
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
	if got := n.calls(); !slices.Equal(got, []string{"open 10s local"}) {
		t.Errorf("got %q", got)
	}
}

func TestHoldKeepsTheSessionOfAToken(t *testing.T) {
	n := startNode(t)
	h := startHold(t, "--token", tokenText, "--keep")
	var v heldView
	h.line(t, &v)
	h.line(t, &eventView{})
	h.stop()
	if code := <-h.code; code != exitDone {
		t.Errorf("exit code %d, %s", code, h.stderr.String())
	}
	if got := n.calls(); !slices.Equal(got, []string{"resume"}) {
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
	if code := <-h.code; code != exitFailed || e.Event != "moved" || e.Error == "" || !strings.Contains(h.stderr.String(), "resumed") {
		t.Errorf("exit code %d, %s, %+v", code, h.stderr.String(), e)
	}
}
