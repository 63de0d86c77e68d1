package client

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

func TestStatesOfASession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s := mustOpen(t, cl, 12*time.Second)
		want := func(state State, events ...string) {
			t.Helper()
			wantPassages(t, s, state, events...)
		}
		want(StateConnected, "connected: connecting -> connected")
		here, other := c.owner(s), c.other(s)
		other.down()
		here.refuse("resume", session.ErrNoLeader)
		here.jeopardy()
		want(StateJeopardy, "jeopardy: connected -> jeopardy")
		here.jeopardyEnded()
		want(StateConnected, "jeopardy ended: jeopardy -> connected")
		here.down()
		want(StateConnecting, "disconnected: connected -> connecting")
		time.Sleep(12 * time.Second)
		want(StateConnecting, "lapsed: connecting -> connecting")
		c.set(func() { other.muteGrants, other.promise = true, func(time.Duration) time.Duration { return -1 } })
		other.up()
		time.Sleep(3 * time.Second)
		want(StateJeopardy, "connected: connecting -> jeopardy")
		c.set(func() { other.promise = nil })
		time.Sleep(3 * time.Second)
		want(StateConnected, "regained: jeopardy -> connected")
		c.expire(s.ID())
		want(StateExpired, "ended: connected -> expired")
	})
}

func TestStatesAtTheEnd(t *testing.T) {
	for want, refusal := range map[State]error{
		StateAuthFailed: session.ErrBadCredential, StateClosed: session.ErrMoved,
		StateExpired: session.ErrExpired,
	} {
		t.Run(want.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 1, 1)
				s := mustOpen(t, cl, 12*time.Second)
				c.set(func() { c.node(1).failures = map[session.ID]error{s.ID(): refusal} })
				<-s.Done()
				got := passages(s)
				if s.State() != want || !strings.HasSuffix(got[len(got)-1], "connected -> "+want.String()) ||
					!errors.Is(s.Err(), refusal) {
					t.Errorf("state %v, events %q, error %v", s.State(), got, s.Err())
				}
			})
		})
	}
}

// When a client loses the connection that it has just moved to, the sessions not resumed there yet are disconnected
// too.
func TestSessionsOfAnUnfinishedMoveAreDisconnected(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		first, second := mustOpen(t, cl, 12*time.Second), mustOpen(t, cl, 12*time.Second)
		here, other := c.owner(first), c.other(first)
		resumes := 0
		other.answer(func(string) error {
			if resumes++; resumes > 1 {
				return errMute
			}
			return nil
		})
		here.jeopardy(other.address)
		synctest.Wait()
		here.down()
		other.down()
		synctest.Wait()
		if first.State() != StateConnecting || second.State() != StateConnecting {
			t.Errorf("states %v and %v without a connection", first.State(), second.State())
		}
		for _, s := range []*Session{first, second} {
			if got := passages(s); !slices.Contains(got[2:], "disconnected: jeopardy -> connecting") &&
				!slices.Contains(got[2:], "disconnected: connected -> connecting") {
				t.Errorf("events %q", got)
			}
		}
	})
}

// A reader who asks for events late gets the newest events, the last event among them.
func TestEventsAreThereForALateReader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 10*time.Hour)
		for range 100 {
			c.node(1).jeopardyEnded()
		}
		synctest.Wait()
		_ = cl.Close()
		var last Event
		n := 0
		for e := range s.Events() {
			last = e
			n++
		}
		if n != eventBuffer || last.State != StateClosed || last.Kind != Ended || last.Dropped != 102-eventBuffer {
			t.Errorf("read %d events, the last one %v, %d dropped", n, passage(last), last.Dropped)
		}
	})
}
