package client

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/window"
	"holdfast/session"
	"holdfast/test/bubble"
)

func TestO2RepeatedOpenIsOneSessionAndIsResumed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		var first *fakeNode
		for i := range 2 {
			n := c.node(i + 1)
			n.answer(func(kind string) error {
				if kind == "open" && first == nil {
					first = n
					time.AfterFunc(time.Second, n.down)
					return errMuteAfter
				}
				return nil
			})
		}
		s := mustOpen(t, cl, 10*time.Second)
		second := c.node(3 - int(first.number))
		wantStrings(t, second.record(), "1s open", "1s resume "+s.ID().String()+" attempt 1")
		if c.opened != 1 || s.ID().Node() != first.number || s.Owner() != second.number {
			t.Errorf("opened %d sessions; %v is owned by node %d", c.opened, s.ID(), s.Owner())
		}
		wantSafe(t, c, s, time.Second+promised(10*time.Second))
	})
}

// The repeat of an open is followed by a resume, also on the same stream: the client does not know where the first open
// was attached.
func TestO2OpenWithAnUnknownOutcomeIsRepeatedAndResumed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		n := c.node(1)
		n.refuseFirst(1, session.ErrOutcomeUnknown)
		mustOpen(t, cl, 10*time.Second)
		got := n.record()
		if len(got) != 3 || !strings.HasSuffix(got[1], "open") || !strings.Contains(got[2], "resume") || c.opened != 1 {
			t.Errorf("got %q, %d sessions", got, c.opened)
		}
	})
}

func TestOpenRefusedForGood(t *testing.T) {
	for _, want := range []error{
		&session.LimitError{Name: "sessions", Limit: "7"}, &session.FieldError{
			Field: "labels", Limit: "at most 32",
		}, session.ErrWrongCluster,
	} {
		t.Run(want.Error(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 2, 2)
				for i := range 2 {
					c.node(i + 1).refuseAll(want)
				}
				_, err := cl.Open(t.Context(), SessionOptions{Timeout: 10 * time.Second})
				if err == nil || !strings.Contains(err.Error(), want.Error()) || time.Since(c.start) != 0 {
					t.Errorf("Open: got %v after %v, want %v at once", err, time.Since(c.start), want)
				}
			})
		})
	}
}

// A crowd that reconnects uses all slots for requests for a moment. An open that finds no free slot asks the same node
// again.
func TestOpenWaitsForARequestSlot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		n := c.node(1)
		n.refuseFirst(3, &session.LimitError{
			Name: "requests_to_leader", Limit: "4096", RetryAfter: session.BusyRetryAfter,
		})
		mustOpen(t, cl, 10*time.Second)
		if got := n.record(); len(got) != 4 || !strings.HasSuffix(got[3], "open") || c.opened != 1 {
			t.Errorf("got %q, want four opens: nothing was done for the first three, so the last repeats none (O2)", got)
		}
	})
}

func TestAbandonedOpenIsClosed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		n := c.node(1)
		mustOpen(t, cl, 12*time.Second)
		n.record()
		n.slow(500 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		if _, err := cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second}); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Fatalf("Open: got %v", err)
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		// The touch names the held session, because the close of the other may be lost.
		wantStrings(t, n.record(), "0s open", "500ms close", "4s touch [100000000000001]")
		if len(c.sessions) != 1 {
			t.Error("the abandoned session lives on")
		}
	})
}

func TestAbandonedResumeIsNotKeptAlive(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		tok := mustOpen(t, cl, 12*time.Second).Token()
		_ = cl.Close()
		cl = newTestClient(t, c, c.endpoints(1, 1))
		held := mustOpen(t, cl, 12*time.Second)
		n := c.node(1)
		n.slow(500 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		if _, err := cl.Resume(ctx, tok); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Resume: got %v", err)
		}
		n.record()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		wantStrings(t, n.record(), "4s touch [100000000000002]")
		if held.Err() != nil {
			t.Error(held.Err())
		}
	})
}

func TestResumeByReason(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 12*time.Second)
		if _, err := cl.Resume(t.Context(), s.Token()); !errors.Is(err, ErrHeld) {
			t.Errorf("Resume of a held session: got %v, want %v", err, ErrHeld)
		}
		tok := s.Token()
		tok.ID++
		if _, err := cl.Resume(t.Context(), tok); !errors.Is(err, session.ErrBadCredential) {
			t.Errorf("Resume with the credential of another session: got %v", err)
		}
		tok.Credential = credentialOf(tok.ID)
		_, err := cl.Resume(t.Context(), tok)
		if e, ok := errors.AsType[*session.ExpiredError](err); !ok || e.ID != tok.ID || e.Certificate != nil {
			t.Errorf("of an unknown session: got %v", err)
		}
		if _, err := cl.Resume(t.Context(), session.Token{}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("Resume of a zero token: got %v", err)
		}
		n := c.node(1)
		n.refuseAll(&session.LimitError{Name: "sessions"})
		if _, err := cl.Resume(t.Context(), tok); !errors.Is(err, session.ErrLimit) {
			t.Errorf("Resume beyond a limit: got %v", err)
		}
	})
}

func TestManyOpensAreSentInAWindow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		var wg sync.WaitGroup
		for range 2 * window.MaxRequests {
			wg.Go(func() { mustOpen(t, cl, 12*time.Second) })
		}
		wg.Wait()
		n := c.node(1)
		n.record()
		n.down()
		n.up()
		time.Sleep(time.Second)
		synctest.Wait()
		if got := len(n.record()); got != 2*window.MaxRequests {
			t.Errorf("resumed %d times, want %d", got, 2*window.MaxRequests)
		}
	})
}

func TestCloseAnswers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 12*time.Second)
		ctx := s.Context()
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(context.Cause(ctx), session.ErrClosed) || !errors.Is(s.Err(), session.ErrClosed) {
			t.Errorf("cause %v, Err %v", context.Cause(ctx), s.Err())
		}
		<-s.Done()
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("closed again: %v", err)
		}
		wantStrings(t, kinds(s), "connected", "ended")
		time.Sleep(time.Minute)
		synctest.Wait()
		wantStrings(t, c.node(1).record(), "0s open", "0s close") // no touches after the close
	})
}

func TestCloseByReason(t *testing.T) {
	tests := []struct {
		err, want error // want is what Close returns
	}{
		{session.ErrMoved, session.ErrMoved},
		{session.ErrExpired, session.ErrExpired},
		{session.ErrBadCredential, session.ErrBadCredential},
		{session.ErrClosing, nil},
		{session.ErrOutcomeUnknown, nil},
		{session.ErrNoLeader, nil},
		{session.ErrLagging, nil},
	}
	for _, tt := range tests {
		t.Run(tt.err.Error(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 2, 2)
				s := mustOpen(t, cl, 12*time.Second)
				n := c.owner(s)
				n.refuseFirst(3, tt.err)
				if err := s.Close(t.Context()); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
					t.Errorf("Close: got %v, want %v", err, tt.want)
				}
				<-s.Done()
			})
		})
	}
}

// A node goes on serving a session whose close it refused for good, although the client has released the session.
// Touches leave the session out.
func TestSessionWhoseCloseWasRefusedIsNotKeptAlive(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 12*time.Second)
		mustOpen(t, cl, 12*time.Second)
		n := c.node(1)
		n.refuseAll(session.ErrBadCredential)
		if err := s.Close(t.Context()); !errors.Is(err, session.ErrBadCredential) {
			t.Errorf("Close: got %v", err)
		}
		n.heal()
		n.record()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		wantStrings(t, n.record(), "4s touch [100000000000002]")
	})
}

func TestCloseWhoseAnswerWasLostSucceeds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s := mustOpen(t, cl, 12*time.Second)
		n := c.owner(s)
		n.answer(func(string) error {
			time.AfterFunc(time.Second, n.down)
			return errMuteAfter
		})
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if !errors.Is(s.Err(), session.ErrClosed) {
			t.Errorf("Err: got %v", s.Err())
		}
	})
}

// A session that another process has taken over and closed was not closed by this process, which did not know of that.
func TestCloseOfASessionThatAnotherProcessHasClosed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 12*time.Second)
		c.node(1).answer(func(string) error {
			c.set(func() {
				cert := c.end(s.ID(), session.CauseClosed)
				cert.Left.Instance = 4711
				c.ended[s.ID()] = cert
			})
			return nil
		})
		err := s.Close(t.Context())
		if e, ok := errors.AsType[*session.ExpiredError](err); !ok || e.Certificate == nil ||
			e.Certificate.Left.Instance != 4711 {
			t.Errorf("Close: %v", err)
		}
		if !errors.Is(s.Err(), session.ErrExpired) {
			t.Errorf("Err: got %v", s.Err())
		}
	})
}

func TestCloseThatIsGivenUpLeavesTheSessionToExpire(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s, other := mustOpen(t, cl, 6*time.Second), mustOpen(t, cl, 6*time.Second)
		n := c.node(1)
		n.refuse("close", errMute)
		ctx, cancel := context.WithTimeout(t.Context(), conn.AskAfter-time.Millisecond)
		defer cancel()
		if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: got %v", err)
		}
		<-s.Done() // no caller waits for the answer any more, so the node is not asked for a sign of life
		n.record()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		wantStrings(t, n.record(), "2s touch [100000000000002]")
		if other.Err() != nil || !errors.Is(s.Err(), session.ErrClosed) {
			t.Errorf("Err: %v, %v", other.Err(), s.Err())
		}
	})
}

func TestClientCloseEndsWaitingCalls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 12*time.Second)
		tok := s.Token()
		tok.ID++
		c.node(1).refuseAll(errMute)
		errs := make(chan error, 3)
		go func() { _, err := cl.Open(t.Context(), SessionOptions{Timeout: time.Second}); errs <- err }()
		go func() { _, err := cl.Resume(t.Context(), tok); errs <- err }()
		go func() { errs <- s.Close(t.Context()) }()
		synctest.Wait()
		_ = cl.Close()
		for range 3 {
			if err := <-errs; !errors.Is(err, session.ErrClosed) {
				t.Errorf("got %v, want %v", err, session.ErrClosed)
			}
		}
		if _, err := cl.Open(t.Context(), SessionOptions{Timeout: time.Second}); !errors.Is(err, session.ErrClosed) {
			t.Errorf("Open after Close: got %v", err)
		}
		if err := cl.Close(); err != nil {
			t.Errorf("closed again: %v", err)
		}
		if _, ok := c.sessions[s.ID()]; !ok {
			t.Error("closing the client has ended the session in the cluster")
		}
	})
}

func TestConfigErrorsNameEachField(t *testing.T) {
	_, err := New(
		Config{
			Endpoints: []string{"localhost", "a:1"}, MinBackoff: -1, MaxBackoff: 1, ConnectTimeout: -2,
			HedgeDelay: -3,
		},
	)
	if err == nil {
		t.Fatal("New accepts a configuration with four errors")
	}
	wantStrings(t, strings.Split(strings.TrimPrefix(err.Error(), "configure client: "), "\n"),
		`endpoints must be host:port with a port from 1 to 65535, not "localhost"`,
		"min backoff must be positive, or 0 for the default, not -1ns",
		"connect timeout must be positive, or 0 for the default, not -2ns",
		"hedge delay must be positive, or 0 for the default, not -3ns")
	if _, err = New(Config{Endpoints: []string{"a:1"}, MaxBackoff: -1}); err == nil ||
		!strings.Contains(err.Error(), "max backoff") {
		t.Errorf("New: got %v", err)
	}
	if _, err = New(Config{}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("New without endpoints: got %v", err)
	}
	cl, err := New(Config{Endpoints: []string{"a:1"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []SessionOptions{
		{}, {Timeout: -1}, {Timeout: session.MaxTimeout + 1}, {Timeout: 1, Labels: map[string]string{"": ""}},
	} {
		if _, err := cl.Open(t.Context(), o); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("Open(%v): got %v", o, err)
		}
	}
}

// An application that closes its client may hold a lock that its OnNode waits for.
func TestOnNodeIsNotCalledByTheEndOfTheClient(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var heard []string
		c := newFakeCluster(t, 1)
		cl := newClientWith(t, Config{
			Endpoints: c.endpoints(1, 1), Dial: c.dial,
			OnNode: func(address string, _ session.NodeState) {
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, address)
			},
		})
		mustOpen(t, cl, 10*time.Second)
		synctest.Wait()
		if err := cl.Close(); err != nil {
			t.Fatal(err)
		}
		wantStrings(t, heard, c.node(1).address)
	})
}
