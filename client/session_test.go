package client

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestOpenTouchesEveryThirdAndCloses(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *fakeCluster, cl *Client) {
		s := mustOpen(t, cl, 12*time.Second)
		if got, want := s.SafeUntil(), c.start.Add(promised(12*time.Second)); !got.Equal(want) {
			t.Errorf("SafeUntil after open: got %v, want %v", got.Sub(c.start), want.Sub(c.start))
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		wantStrings(t, c.node(1).record(), "0s open", "4s touch", "8s touch", "9s close")
	})
}

func wantStrings(t *testing.T, got []string, want ...string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
	}
}
