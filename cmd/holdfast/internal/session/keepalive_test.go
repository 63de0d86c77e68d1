package session

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

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
	"holdfast/cmd/holdfast/internal/keepalive"
	"holdfast/session"
)

// holding is a running "session keep-alive".
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
		code := clitest.Run(ctx, append([]string{"session", "keep-alive", "-o", "json"}, args...), strings.NewReader(""), w,
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
	n := fakenode.Start(t)
	h := startHold(t)
	var v keepalive.Opened
	var e keepalive.Event
	h.line(t, &v)
	h.line(t, &e)
	if v.Token != fakenode.TokenText || e.Event != "connected" || e.From != "connecting" || e.State != "connected" ||
		e.Address != n.Address || e.SafeUntil == nil || e.Node != 1 {
		t.Errorf("got %+v, %+v", v, e)
	}
	h.stop()
	e = keepalive.Event{}
	h.line(t, &e)
	if code := <-h.code; code != cli.ExitDone || e.Event != "ended" || e.State != "closed" {
		t.Errorf("exit code %d, %s, %+v", code, h.stderr.String(), e)
	}
	if got := n.SessionCalls(); !slices.Equal(got, []string{"open 10s ", "close"}) {
		t.Errorf("got %q", got)
	}
}

func TestHoldOpensALocalSession(t *testing.T) {
	n := fakenode.Start(t)
	h := startHold(t, "--local", "--no-close")
	var v keepalive.Opened
	h.line(t, &v)
	h.line(t, &keepalive.Event{})
	h.stop()
	if code := <-h.code; code != cli.ExitDone || v.Token != fakenode.TokenText+".local" || !v.Local {
		t.Errorf("exit code %d, %s, %+v", code, h.stderr.String(), v)
	}
	if got := n.SessionCalls(); !slices.Equal(got, []string{"open 10s local"}) {
		t.Errorf("got %q", got)
	}
}

func TestHoldKeepsTheSessionOfAToken(t *testing.T) {
	n := fakenode.Start(t)
	h := startHold(t, "--token-file", fakenode.TokenFile(t, fakenode.TokenText), "--no-close")
	var v keepalive.Opened
	h.line(t, &v)
	h.line(t, &keepalive.Event{})
	h.stop()
	if code := <-h.code; code != cli.ExitDone {
		t.Errorf("exit code %d, %s", code, h.stderr.String())
	}
	if got := n.SessionCalls(); !slices.Equal(got, []string{"resume"}) {
		t.Errorf("got %q", got)
	}
}

func TestHoldFailsWhenTheSessionEndsOtherwise(t *testing.T) {
	n := fakenode.Start(t)
	h := startHold(t)
	h.line(t, &keepalive.Opened{})
	h.line(t, &keepalive.Event{})
	n.SendMoved()
	var e keepalive.Event
	h.line(t, &e)
	if code := <-h.code; code != cli.ExitFailed || e.Event != "moved" || e.Error == "" ||
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
	clitest.InTime(t, func(limit string) string {
		n := fakenode.Start(t)
		n.SetMode(session.ModeReadOnly)
		h := startHold(t, "--read-only", "--no-close", "--call-timeout", limit)
		var w keepalive.Waiting
		if err := h.read(&w); err != nil || w.State != "connected read-only" || w.Node != 1 || w.Index != 98 ||
			w.Address != n.Address {
			return fmt.Sprintf("got %+v, %v", w, err)
		}
		time.AfterFunc(beyond(t, limit), func() { n.SetMode(session.ModeReadWrite) })
		var v keepalive.Opened
		err := h.read(&v, &keepalive.Event{})
		h.stop()
		if code := <-h.code; code != cli.ExitDone || v.Token != fakenode.TokenText || err != nil {
			return fmt.Sprintf("exit code %d, %s, %+v, %v", code, h.stderr.String(), v, err)
		}
		return ""
	})
}

// When hold loses its read-only node, it waits on beyond --call-timeout, and names the node that it finds next.
func TestHoldWaitsWhenItsReadOnlyNodeIsLost(t *testing.T) {
	clitest.InTime(t, func(limit string) string {
		n := fakenode.Start(t)
		n.SetMode(session.ModeReadOnly)
		h := startHold(t, "--read-only", "--no-close", "--call-timeout", limit)
		var w keepalive.Waiting
		if err := h.read(&w); err != nil {
			return err.Error()
		}
		back := n.Lose()
		var isBack atomic.Bool
		time.AfterFunc(beyond(t, limit), func() {
			isBack.Store(true)
			back()
		})
		if err := h.read(&w); err != nil || w.State != "connected read-only" || w.Address != n.Address || !isBack.Load() {
			return fmt.Sprintf("got %+v, %v; the node was back: %v", w, err, isBack.Load())
		}
		n.SetMode(session.ModeReadWrite)
		var v keepalive.Opened
		err := h.read(&v, &keepalive.Event{})
		h.stop()
		if code := <-h.code; code != cli.ExitDone || v.Token != fakenode.TokenText || err != nil {
			return fmt.Sprintf("exit code %d, %s, %+v, %v", code, h.stderr.String(), v, err)
		}
		return ""
	})
}

func TestHoldWithoutLeaveDoesNotWaitAtAReadOnlyNode(t *testing.T) {
	n := fakenode.Start(t)
	n.SetMode(session.ModeReadOnly)
	clitest.InTime(t, func(limit string) string {
		code, _, stderr := clitest.Execute(t, "", "session", "keep-alive", "--call-timeout", limit)
		if code != cli.ExitFailed || !strings.Contains(stderr, session.ErrReadOnly.Error()) {
			return fmt.Sprintf("exit code %d, %s", code, stderr)
		}
		return ""
	})
}

// slowInput is a standard input that says nothing for a while.
type slowInput struct {
	silent time.Duration
	text   io.Reader
}

func (s *slowInput) Read(b []byte) (int, error) {
	<-time.After(s.silent)
	s.silent = 0
	return s.text.Read(b)
}

// The wait for a token is none for the cluster.
func TestHoldWaitsForItsToken(t *testing.T) {
	clitest.InTime(t, func(limit string) string {
		n := fakenode.Start(t)
		var errs bytes.Buffer
		stdin := &slowInput{beyond(t, limit), strings.NewReader(fakenode.TokenText)}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		r, w := io.Pipe()
		ended := make(chan int, 1)
		go func() {
			ended <- clitest.Run(ctx, strings.Fields("session keep-alive --no-close --call-timeout "+limit+" --token-file -"),
				stdin, w, &errs)
			_ = w.Close()
		}()
		_, _ = r.Read(make([]byte, 1)) // it holds the session, or has ended
		stop()
		_, _ = io.Copy(io.Discard, r)
		if code := <-ended; code != cli.ExitDone {
			return fmt.Sprintf("exit code %d, %s", code, errs.String())
		}
		if got := n.SessionCalls(); len(got) != 1 || got[0] != "resume" {
			return fmt.Sprintf("got %q", got)
		}
		return ""
	})
}
