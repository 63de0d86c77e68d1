package client

import (
	"sync"
	"testing"
	"time"

	"holdfast/client/internal/core"
	"holdfast/client/internal/core/conn"
	sessions "holdfast/client/internal/core/session"
	"holdfast/session"
)

// N4: an application that learns of a node's message, such as the end of a session, and then reads, reads nothing older
// than the index in the message. The test holds the session's mutex, because no API stops a turn between the two steps.
func TestN4TheIndexOfAMessageIsSeenBeforeItsEffects(t *testing.T) {
	l := newLoop(Config{}, newClock(), shared{occupancy: new(occupancy), seen: new(seen)}, core.Config{})
	first, s := newSession(t.Context(), l), newSession(t.Context(), l)
	var turn sync.WaitGroup
	s.mu.Lock() // the session cannot end meanwhile
	turn.Go(func() {
		e := &core.Effects{Conns: conn.Effects{Known: conn.Known{Seen: 7}}}
		for _, one := range []*Session{first, s} {
			e.Sessions.Ended = append(e.Sessions.Ended, sessions.Ended{
				Session: &sessions.Session{Handle: one}, Err: session.ErrMoved,
			})
		}
		l.bring(t.Context(), e, 0)
	})
	<-first.done // the first effect of the turn
	if got := l.shared.seen.demand(); got != 7 {
		t.Errorf("a read demands index %d while the end of a session told at index 7 takes effect, want 7", got)
	}
	s.mu.Unlock()
	turn.Wait()
}

// A promise that arrives after the timer of the former promise is reported to the core as missed, unless the core has
// seen the lapse itself or the application has closed the session. No API shows when the timer is faster than a turn,
// so the test performs the effects of a turn itself.
func TestAPromiseAfterItsTimerIsMissed(t *testing.T) {
	l := newLoop(Config{}, newClock(), shared{occupancy: new(occupancy), seen: new(seen)}, core.Config{})
	for name, promised := range map[string]struct{ regained, closing, missed bool }{
		"the core has not seen the lapse": {missed: true},
		"the core has seen the lapse":     {regained: true},
		"the application has closed it":   {closing: true},
	} {
		s := newSession(t.Context(), l) // its context has ended
		s.closing = promised.closing
		h := &sessions.Session{Handle: s}
		e := new(core.Effects)
		e.Sessions.Promised = []sessions.Promised{
			{Session: h, Handle: s, Until: time.Now().Add(time.Minute), Regained: promised.regained},
			{Session: h, Handle: s, Until: time.Now().Add(time.Hour)},
		}
		missed := l.bring(t.Context(), e, 0)
		if got := len(missed) == 1 && missed[0] == h; got != promised.missed || len(missed) > 1 {
			t.Errorf("%s: missed %v, want %v", name, missed, promised.missed)
		}
	}
}
