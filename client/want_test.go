package client

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func wantStrings(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
}

// wantSafe waits until all is quiet, and compares SafeUntil with a time since the start; negative for no promise.
func wantSafe(t *testing.T, c *fakeCluster, s *Session, want time.Duration) {
	t.Helper()
	synctest.Wait()
	got := time.Duration(-1)
	if until := s.SafeUntil(); !until.IsZero() {
		got = until.Sub(c.start)
	}
	if got != want {
		t.Errorf("after %v SafeUntil: got %v, want %v", time.Since(c.start), got, want)
	}
}

// kinds reads all events there are, and returns their kinds.
func kinds(s *Session) []string {
	var got []string
	for {
		select {
		case e, ok := <-s.Events():
			if !ok {
				return got
			}
			got = append(got, e.Kind.String())
		default:
			return got
		}
	}
}

// passage describes an event and the change of state that it reports.
func passage(e Event) string { return fmt.Sprintf("%v: %v -> %v", e.Kind, e.From, e.State) }

// passages reads all events there are, and returns their descriptions.
func passages(s *Session) []string {
	var got []string
	for len(s.Events()) > 0 {
		got = append(got, passage(<-s.Events()))
	}
	return got
}

// wantPassages waits until all is quiet, and compares the state and the events that were not read yet.
func wantPassages(t *testing.T, s *Session, state State, events ...string) {
	t.Helper()
	synctest.Wait()
	if got := s.State(); got != state {
		t.Errorf("state %v, want %v", got, state)
	}
	wantStrings(t, passages(s), events...)
}
