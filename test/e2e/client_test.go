//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/timeout"
)

// TestClientPaused stops a client's process, first for less than its session's timeout and then for longer. After the
// first stop the session goes on. After the second it is dead, and the client must learn that before it does anything
// else.
func TestClientPaused(t *testing.T) {
	c := up(t, 3)
	h := c.hold("--timeout", minTimeout.String())
	held := h.next(func(s shown) bool { return s.ID != "" })
	h.next(func(s shown) bool { return s.Event == "connected" })
	id, err := session.ParseID(held.ID)
	timeout.Check(t, err)

	h.stop()
	time.Sleep(minTimeout / 4)
	h.signal(syscall.SIGCONT)
	time.Sleep(2 * minTimeout)
	found, err := c.find(id, c.all()...)
	timeout.Check(t, err)
	if found.Certificate != nil {
		h.next(func(s shown) bool { return s.Event == "ended" }) // and all promises before
		h.kept(*found.Certificate)
		timeout.Fatalf(t, "after a short pause: %+v; want a living session", found)
	}

	h.stop()
	stopped := time.Now()
	cert := *c.awaitEnd(id, stopped.Add(minTimeout+healWithin)).Certificate
	took(t, "expiry of a stopped client after", cert.EndedAt.Sub(stopped))
	printed := len(h.shown)
	h.signal(syscall.SIGCONT)
	h.next(func(s shown) bool { return s.Event == "ended" })
	h.kept(cert)
	if first := h.shown[printed]; first.Event != "lapsed" {
		t.Errorf("the client's first event after the stop is %+v, want the end of its promise", first)
	}
	var exit *exec.ExitError
	if err := h.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("hold of the dead session: %v, want exit code 1", err)
	}
}

// kept checks that the certificate of the holder's session says that it expired, and breaks no promise. The holder has
// a timeout of minTimeout.
func (h *holder) kept(cert session.Certificate) {
	h.c.t.Helper()
	if cert.Cause != session.CauseExpired {
		h.c.t.Errorf("the certificate says %+v, want that the session expired", cert)
	}
	for _, breach := range broken(time.Time{}, minTimeout, cert) {
		h.c.t.Error(breach)
	}
	for _, s := range h.shown {
		if s.SafeUntil.After(cert.EndedAt) {
			h.c.t.Errorf("I3: the client was promised %v by %+v, and its session ended %v", s.SafeUntil, s, cert.EndedAt)
		}
	}
}

func (h *holder) signal(s os.Signal) {
	h.c.t.Helper()
	timeout.Check(h.c.t, h.cmd.Process.Signal(s))
}

// stop freezes the process, and checks that it did.
func (h *holder) stop() {
	h.c.t.Helper()
	h.signal(syscall.SIGSTOP)
	h.c.await(healWithin, "the client has stopped", func() (bool, string) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.cmd.Process.Pid))
		if err != nil {
			return false, err.Error()
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(rest, "T"), rest
	})
}

// TestTokenStolen makes clients at all nodes take one session from each other, while a node is killed and comes back.
// Each loser is told. The session never ends, and a loser can do nothing with its former token (I4 one owner).
func TestTokenStolen(t *testing.T) {
	lasts := 20 * time.Second // for some thefts: a living thief has the session for half of its timeout (M7)
	if full {
		lasts = time.Minute
	}
	c := up(t, 3)
	l := c.newLedger()
	var thieves []*client.Client
	for _, n := range c.all() {
		x, _ := l.clientAt(n, 1, minTimeout)
		thieves = append(thieves, x)
	}
	first := l.open(thieves[0], 1, minTimeout)[0]
	id, token := first.session.ID(), first.session.Token()

	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var fight sync.WaitGroup
	stolen := make([][]*account, len(thieves))
	for i, x := range thieves {
		fight.Go(func() {
			if i == 0 {
				<-first.session.Done()
			}
			for ctx.Err() == nil {
				s, err := l.steal(x, token)
				if errors.Is(err, session.ErrMoved) { // stolen again before the answer came, or kept from this thief
					continue
				}
				if err != nil {
					t.Errorf("steal session %s: %v", id, err)
					return
				}
				stolen[i] = append(stolen[i], l.hold(s))
				select {
				case <-s.Done():
				case <-ctx.Done():
				}
			}
		})
	}
	time.Sleep(lasts / 4)
	victim := 1
	c.kill(victim)
	time.Sleep(lasts / 4)
	c.start(victim)
	fight.Wait()

	c.awaitServing(healWithin, c.all()...)
	var holds *account
	thefts := 0
	c.await(healWithin, "one client holds the session", func() (bool, string) {
		var holders []*account
		thefts = 0
		for _, mine := range stolen {
			thefts += len(mine)
			for _, a := range mine {
				if a.session.Err() == nil {
					holders = append(holders, a)
				}
			}
		}
		if len(holders) != 1 || holders[0].session.SafeUntil().IsZero() {
			return false, fmt.Sprintf("%d clients hold it", len(holders))
		}
		holds = holders[0]
		return true, ""
	})
	count(t, "thefts", "", thefts)
	if thefts < len(thieves) {
		timeout.Fatalf(t, "the session was stolen %d times only", thefts)
	}
	w := c.watcher(c.all()...)
	const tried = 20 // of each client's thefts
	for _, mine := range stolen {
		for _, a := range mine[max(len(mine)-tried, 0):] {
			if a != holds {
				l.powerless(w, a, token)
			}
		}
	}
	l.noneEnded([]*account{holds})
	l.awaitOwners(healWithin, []*account{holds}, c.all()...)
}

// steal resumes the session with the token of its open; the refusal tells the present attachment (M1 a resume is a
// move). It is not cut off when the fight is over: a theft that nobody waits for may still be applied, and take the
// session from its last holder.
func (l *ledger) steal(thief *client.Client, token session.Token) (*client.Session, error) {
	ctx, cancel := context.WithTimeout(l.c.t.Context(), healWithin)
	defer cancel()
	return thief.Resume(ctx, token)
}

// powerless checks that the client of a stolen session was told, and that its token touches and closes nothing.
func (l *ledger) powerless(w *client.Client, a *account, first session.Token) {
	l.c.t.Helper()
	ctx, cancel := context.WithTimeout(l.c.t.Context(), healWithin)
	defer cancel()
	if err := a.session.Err(); !errors.Is(err, session.ErrMoved) {
		l.c.t.Errorf("session %s ended for the client that lost it with %v, want %v", a.session.ID(), err,
			session.ErrMoved)
	}
	for _, token := range []session.Token{a.session.Token(), first} {
		if err := w.CloseToken(ctx, token); !errors.Is(err, session.ErrMoved) {
			l.c.t.Errorf("a close with attachment %d, which was lost: %v, want %v", token.Attachment, err,
				session.ErrMoved)
		}
		results, err := w.Touch(ctx, []session.Token{token})
		if err != nil || !errors.Is(results[0].Err, session.ErrMoved) || !results[0].SafeUntil.IsZero() {
			l.c.t.Errorf("a touch with attachment %d, which was lost: %+v, %v, want %v", token.Attachment, results,
				err, session.ErrMoved)
		}
	}
}
