package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// full returns the refusal of a node that has used up its budget of resumes.
func full(retryAfter time.Duration) error {
	return &session.LimitError{Name: "max_resumes_per_second", Limit: "100 per second", RetryAfter: retryAfter}
}

// A full node names a retry time within the promise. The client asks that node again then, and asks no other node
// meanwhile.
func TestAResumeIsRetriedAtTheRequestedTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s := mustOpen(t, cl, 16*time.Second)
		former, other := c.owner(s), c.other(s)
		other.refuseResumes(2, func(int) error { return full(4 * time.Second) })
		time.Sleep(time.Second)
		former.down()
		synctest.Wait()
		former.up()
		time.Sleep(10 * time.Second)
		at := other.when(t, "resume")
		if len(at) != 3 || at[1] < at[0]+4*time.Second || at[1] > at[0]+4*time.Second+DefaultMinBackoff ||
			at[2] < at[1]+4*time.Second || at[2] > at[1]+4*time.Second+2*DefaultMinBackoff {
			t.Errorf("the node was asked at %v, want 1 s, 4 s later, and 4 s later again", at)
		}
		if got := former.when(t, "resume"); len(got) != 0 {
			t.Errorf("the other node was asked at %v, want not at all", got)
		}
		if s.Owner() != other.number || s.Context().Err() != nil {
			t.Errorf("owner %d, %v", s.Owner(), context.Cause(s.Context()))
		}
	})
}

// A retry time after the end of the promise is too late: the client tries another node at once.
func TestAResumeThatCannotWaitTriesAnotherNodeAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		s := mustOpen(t, cl, 12*time.Second)
		former := c.owner(s)
		var refused []*fakeNode
		for i := range 3 {
			if n := c.node(i + 1); n != former {
				n.refuseResumes(1, func(int) error { return full(20 * time.Second) })
				refused = append(refused, n)
			}
		}
		time.Sleep(time.Second)
		former.cut() // the former node serves again, and is tried last
		time.Sleep(time.Second)
		for _, n := range refused {
			if at := n.when(t, "resume"); len(at) != 1 || at[0] != time.Second {
				t.Errorf("node %d was asked at %v, want only at once", n.number, at)
			}
		}
		if at := former.when(t, "resume"); len(at) != 1 || at[0] != time.Second || s.Owner() != former.number {
			t.Errorf("the third node was asked at %v, want at once; owner %d", at, s.Owner())
		}
	})
}

// Each session of a client is resumed at its own retry time, not at the latest one of all.
func TestEachResumeIsRetriedAtItsOwnTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const sessions = 40
		c, cl := newTrial(t, 1, 1)
		for range sessions {
			mustOpen(t, cl, 40*time.Second)
		}
		n := c.node(1)
		n.refuseResumes(sessions, func(i int) error { return full(time.Duration(i+1) * 100 * time.Millisecond) })
		n.record()
		n.cut()
		synctest.Wait()
		time.Sleep(8 * time.Second)
		at := n.when(t, "resume")
		if len(at) != 2*sessions {
			t.Fatalf("%d resumes, want two of each of %d sessions", len(at), sessions)
		}
		at = at[sessions:]
		for i, got := range at {
			if want := time.Duration(i+1) * 100 * time.Millisecond; got < want-DefaultMinBackoff ||
				got > want+200*time.Millisecond {
				t.Errorf("resume %d was repeated after %v, want %v", i, got, want)
			}
		}
	})
}

// A client stays with a node that serves it, however long some of its sessions have to wait there.
func TestAClientThatIsServedStays(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		a, b := mustOpen(t, cl, 12*time.Second), mustOpen(t, cl, 12*time.Second)
		former, other := c.owner(a), c.other(a)
		other.refuseResumes(3, func(i int) error {
			return []error{full(4 * time.Second), nil, full(20 * time.Second)}[i]
		})
		former.cut()
		time.Sleep(6 * time.Second)
		if a.Owner() == b.Owner() && a.State() == StateConnected && b.State() == StateConnected {
			t.Error("no session had to wait: the test shows nothing")
		}
		time.Sleep(5 * time.Second)
		if a.Owner() != other.number || b.Owner() != other.number || a.State() != StateConnected ||
			b.State() != StateConnected {
			t.Errorf("owners %d and %d, states %v and %v", a.Owner(), b.Owner(), a.State(), b.State())
		}
		if at := former.when(t, "resume"); len(at) != 0 {
			t.Errorf("the former node was asked at %v, want not at all", at)
		}
	})
}

// A touch that a full node refuses is sent again at the retry time.
func TestATouchIsRetriedAtTheRequestedTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 12*time.Second)
		n, touches := c.node(1), 0
		n.record()
		n.answer(func(kind string) error {
			if touches++; kind == "touch" && touches == 1 {
				return &session.LimitError{
					Name: "max_touches_per_second", Limit: "1 per second", RetryAfter: 500 * time.Millisecond,
				}
			}
			return nil
		})
		time.Sleep(6 * time.Second)
		at := n.when(t, "touch")
		if len(at) < 2 || at[1] < at[0]+500*time.Millisecond || at[1] > at[0]+500*time.Millisecond+DefaultMinBackoff {
			t.Errorf("touched %v, want the second 500 ms after the first", at)
		}
		if s.State() != StateConnected {
			t.Errorf("state %v", s.State())
		}
	})
}

// The client name is sent with the stream and with unary calls.
func TestClientNameIsSent(t *testing.T) {
	if _, err := New(Config{Endpoints: []string{"a:1"}, ClientName: " "}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("New: got %v, want a field error", err)
	}
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 1)
		cl := newClientWith(t, Config{Endpoints: c.endpoints(1, 1), Dial: c.dial, ClientName: "team a"})
		mustOpen(t, cl, 12*time.Second)
		if _, err := cl.Status(t.Context(), c.node(1).address); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if got, want := fmt.Sprint(c.node(1).clientNames), "[team a team a]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
