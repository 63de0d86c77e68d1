package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
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
	if err := h.read(v); err != nil {
		t.Fatal(err)
	}
}

// read reads one line into each of the values.
func (h *holding) read(values ...any) error {
	for _, v := range values {
		if !h.lines.Scan() {
			return fmt.Errorf("no line: %s", h.stderr.String())
		}
		if err := json.Unmarshal(h.lines.Bytes(), v); err != nil {
			return fmt.Errorf("%w in %s", err, h.lines.Text())
		}
	}
	return nil
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

// beyond returns a duration that is longer than a limit.
func beyond(t *testing.T, limit string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(limit)
	if err != nil {
		t.Fatal(err)
	}
	return d + d/2
}

// With --read-only, hold names the read-only node and waits without a limit until it finds a read-write node.
func TestHoldWaitsAtAReadOnlyNode(t *testing.T) {
	inTime(t, func(limit string) string {
		n := startNode(t)
		n.isIn(session.ModeReadOnly)
		h := startHold(t, "--read-only", "--keep", "--call-timeout", limit)
		var w waitingView
		if err := h.read(&w); err != nil || w.State != "connected read-only" || w.Node != 1 || w.Index != 98 ||
			w.Address != n.address {
			return fmt.Sprintf("got %+v, %v", w, err)
		}
		time.AfterFunc(beyond(t, limit), func() { n.isIn(session.ModeReadWrite) })
		var v heldView
		err := h.read(&v, &eventView{})
		h.stop()
		if code := <-h.code; code != exitDone || v.Token != tokenText || err != nil {
			return fmt.Sprintf("exit code %d, %s, %+v, %v", code, h.stderr.String(), v, err)
		}
		return ""
	})
}

// When hold loses its read-only node, it waits on beyond --call-timeout, and names the node that it finds next.
func TestHoldWaitsWhenItsReadOnlyNodeIsLost(t *testing.T) {
	inTime(t, func(limit string) string {
		n := startNode(t)
		n.isIn(session.ModeReadOnly)
		h := startHold(t, "--read-only", "--keep", "--call-timeout", limit)
		var w waitingView
		if err := h.read(&w); err != nil {
			return err.Error()
		}
		back := n.lose()
		var isBack atomic.Bool
		time.AfterFunc(beyond(t, limit), func() {
			isBack.Store(true)
			back()
		})
		if err := h.read(&w); err != nil || w.State != "connected read-only" || w.Address != n.address || !isBack.Load() {
			return fmt.Sprintf("got %+v, %v; the node was back: %v", w, err, isBack.Load())
		}
		n.isIn(session.ModeReadWrite)
		var v heldView
		err := h.read(&v, &eventView{})
		h.stop()
		if code := <-h.code; code != exitDone || v.Token != tokenText || err != nil {
			return fmt.Sprintf("exit code %d, %s, %+v, %v", code, h.stderr.String(), v, err)
		}
		return ""
	})
}

func TestHoldWithoutLeaveDoesNotWaitAtAReadOnlyNode(t *testing.T) {
	n := startNode(t)
	n.isIn(session.ModeReadOnly)
	inTime(t, func(limit string) string {
		code, _, stderr := execute(t, "", "session", "hold", "--call-timeout", limit)
		if code != exitFailed || !strings.Contains(stderr, session.ErrReadOnly.Error()) {
			return fmt.Sprintf("exit code %d, %s", code, stderr)
		}
		return ""
	})
}
