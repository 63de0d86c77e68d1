package client

import (
	"errors"
	"strings"
	"testing"
	"time"

	sessions "holdfast/client/internal/core/session"
	"holdfast/session"
	"holdfast/test/bubble"
)

// elsewhereUnheard has a client of n1 send its resumes to n2 too, get no answer, and stay at n1.
func elsewhereUnheard(t *testing.T, c *fakeCluster) {
	t.Helper()
	c.node(2).refuseAll(errMute)
	c.node(1).jeopardy(c.node(2).address)
	time.Sleep(time.Second)
	c.node(1).jeopardyEnded()
	time.Sleep(time.Second)
	c.node(2).heal()
	if here, there := c.node(1).count("resume"), c.node(2).count("resume"); here != 0 || there != 1 {
		t.Fatalf("n1 was asked %d times and n2 %d times, want none and once", here, there)
	}
}

// M1: a client whose resume was never answered does not treat a later take-over as its own, however late the take-over
// comes.
func TestM1AHandOverIsNotStolenBack(t *testing.T) {
	for _, after := range []time.Duration{time.Second, time.Hour} {
		t.Run(after.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newFakeCluster(t, 3)
				s := mustOpen(t, newToldClient(t, c), 12*time.Second)
				elsewhereUnheard(t, c)
				time.Sleep(after)
				taken, err := newTestClient(t, c, c.endpoints(3, 3)).Resume(t.Context(), s.Token())
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if !errors.Is(s.Err(), session.ErrMoved) || taken.Err() != nil || taken.State() != StateConnected {
					t.Errorf("the one that gave it away: %v; the one that has it: %v, %v", s.Err(), taken.State(),
						taken.Err())
				}
				if again := c.node(1).count("resume"); again != 0 {
					t.Errorf("the one that gave it away has resumed it %d times, want none", again)
				}
			})
		})
	}
}

// M1: the client knows its own late resume by its instance, and the session continues.
func TestM1OwnLateMoveKeepsTheSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 2)
		const own = 7
		cl := newClientWith(t, Config{Endpoints: c.endpoints(1, 1), Dial: c.dial, Instance: own})
		s := mustOpen(t, cl, 12*time.Second)
		c.node(1).broadcast(movedMessage(s.ID(), own))
		time.Sleep(time.Minute)
		if s.State() != StateConnected || s.Context().Err() != nil {
			t.Errorf("the session is %v, %v", s.State(), s.Err())
		}
	})
}

// A resume with an old token takes a session over from any holder: the refusal names the present attachment, and the
// client repeats the resume with it.
func TestM1ATakeOverNamesTheRefusalsAttachment(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 3)
		s := mustOpen(t, newTestClient(t, c, c.endpoints(1, 1)), 12*time.Second)
		old := s.Token()
		for range 2 {
			c.node(1).cut()
			time.Sleep(time.Second)
		}
		if s.Token().Attachment == old.Attachment {
			t.Fatal("two reconnections have not changed the attachment in the token")
		}
		begun := time.Now()
		taken, err := newTestClient(t, c, c.endpoints(3, 3)).Resume(t.Context(), old)
		if err != nil || time.Since(begun) > 100*time.Millisecond {
			t.Fatalf("after %v: %v", time.Since(begun), err)
		}
		<-s.Done()
		if n := c.node(3).count("resume"); n != 2 || !errors.Is(s.Err(), session.ErrMoved) || taken.Err() != nil {
			t.Errorf("%d resumes; the former holder: %v, the present one: %v", n, s.Err(), taken.Err())
		}
	})
}

// The token of a local session is useless once another process has resumed the session and upgraded it. The refusal
// names the attachment in the log.
func TestM1ATakeOverOfAnUpgradedSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 1)
		s := mustOpenLocal(t, newTestClient(t, c, c.endpoints(1, 1)), 12*time.Second)
		old := s.Token()
		c.node(1).cut()
		time.Sleep(time.Second)
		if err := s.Upgrade(t.Context()); err != nil || s.Token().Attachment == old.Attachment {
			t.Fatalf("upgraded to %v, %v", s.Token(), err)
		}
		c.node(1).record()
		taken, err := newTestClient(t, c, c.endpoints(1, 1)).Resume(t.Context(), old)
		if n := c.node(1).count("resume"); err != nil || taken.Local() || n != 2 {
			t.Errorf("after %d resumes: %v", n, err)
		}
	})
}

// M7: a take-over waits while the holder keeps the session, however long that is.
func TestM7ATakeOverWaitsForTheHolder(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const timeout, kept = 40 * time.Second, 20 * time.Second
		c := newFakeCluster(t, 1)
		s := mustOpen(t, newTestClient(t, c, c.endpoints(1, 1)), timeout)
		begun := time.Now()
		c.node(1).answer(func(kind string) error {
			if kind != "resume" || time.Since(begun) >= kept {
				return nil
			}
			return session.MovedTo(session.Session{Attachment: s.Token().Attachment, Instance: 9})
		})
		taken, err := newTestClient(t, c, c.endpoints(1, 1)).Resume(t.Context(), s.Token())
		if took := time.Since(begun); err != nil || took < kept || took > kept+2*DefaultMaxBackoff {
			t.Fatalf("after %v: %v, %v", took, taken, err)
		}
		if n := c.node(1).count("resume"); n > 40 {
			t.Errorf("%d resumes in %v", n, kept)
		}
	})
}

// A client that other processes beat to a session again and again gives up.
func TestM1TakeOversAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 1)
		now := session.Session{Attachment: 100, Instance: 9}
		c.node(1).answer(func(kind string) error {
			if kind != "resume" {
				return nil
			}
			now.Attachment++ // another process has taken the session again
			return session.MovedTo(now)
		})
		begun := time.Now()
		_, err := newTestClient(t, c, c.endpoints(1, 1)).Resume(t.Context(), session.Token{ID: 5, Attachment: 1})
		if n := c.node(1).count("resume"); !errors.Is(err, session.ErrMoved) || n != sessions.MaxTakeOvers+1 {
			t.Errorf("%d resumes, then %v; want %d and %v", n, err, sessions.MaxTakeOvers+1, session.ErrMoved)
		}
		if took := time.Since(begun); took < 500*time.Millisecond || took > sessions.MaxTakeOvers*DefaultMaxBackoff {
			t.Errorf("gave up after %v", took)
		}
	})
}

// A client loses its connection, and another process takes its session over. The client does not take the session back
// on its own.
func TestM1AnAutomaticResumeTakesNothingBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 3)
		s := mustOpen(t, newTestClient(t, c, c.endpoints(1, 2)), 12*time.Second)
		owner := c.owner(s)
		other := c.other(s)
		other.refuseAll(session.ErrNoLeader)
		owner.down()
		taken, err := newTestClient(t, c, c.endpoints(3, 3)).Resume(t.Context(), s.Token())
		if err != nil {
			t.Fatal(err)
		}
		other.heal()
		time.Sleep(time.Minute)
		if !errors.Is(s.Err(), session.ErrMoved) || taken.Err() != nil || taken.State() != StateConnected {
			t.Errorf("the one that was away: %v; the one that has it: %v, %v", s.Err(), taken.State(), taken.Err())
		}
	})
}

// A node reports that a session has moved, without naming a holder. The client asks for the session once, because the
// log knows, and believes the node the second time.
func TestM1MovedToAnUnknownHolder(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 12*time.Second)
		said := 0
		c.set(func() {
			c.node(1).failures = map[session.ID]error{s.ID(): session.MovedTo(session.Session{Attachment: 9})}
		})
		for s.Err() == nil && said < 10 {
			time.Sleep(3 * time.Second)
			said++
		}
		if n := c.node(1).count("resume"); !errors.Is(s.Err(), session.ErrMoved) || n != 1 {
			t.Errorf("%d resumes, then %v\n%s", n, s.Err(), strings.Join(c.node(1).record(), "\n"))
		}
	})
}

// A node reports a move without a holder, and accepts touches of the session afterwards. The client asks for the
// session again the next time.
func TestM1MovedToAnUnknownHolderAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 12*time.Second)
		nobody := session.MovedTo(session.Session{Attachment: 9})
		resumes := 0
		for range 5 {
			c.set(func() { c.node(1).failures = map[session.ID]error{s.ID(): nobody} })
			before := resumes
			for waited := 0; resumes == before && waited < 100; waited++ {
				time.Sleep(100 * time.Millisecond)
				resumes += c.node(1).count("resume")
			}
			c.set(func() { c.node(1).failures = nil })
			time.Sleep(6 * time.Second) // the node accepts touches
		}
		if s.Err() != nil || resumes != 5 {
			t.Errorf("%d resumes, then %v", resumes, s.Err())
		}
	})
}
