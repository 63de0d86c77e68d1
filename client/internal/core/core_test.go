package core

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
)

// A node may have served a touch before it attached a session to the stream. The answer promises that session nothing.
func TestTouchSentBeforeTheAttachmentPromisesNothing(t *testing.T) {
	l, c, h := staged(t)
	h.closing, h.timeout = nil, 10*time.Second
	l.now = time.Now()
	answer := &holdfastv1.Touched{SafeFor: durationpb.New(9 * time.Second)}
	body := &touchBody{smallest: h.timeout}
	l.touched(c, &window.Request{Seq: h.since, Sent: l.now, Body: body}, body, answer)
	if got := h.until; !got.IsZero() {
		t.Fatalf("safe until %v by a touch from before the attachment", got)
	}
	l.touched(c, &window.Request{Seq: h.since + 1, Sent: l.now, Body: body}, body, answer)
	if got, want := h.until, l.now.Add(9*time.Second); !got.Equal(want) {
		t.Fatalf("safe until %v by a later touch, want %v", got, want)
	}
}

// A resume is granted after the client has released the session. The node serves it, so touches have to name the
// sessions that the client holds.
func TestResumeOfAReleasedSessionMakesTouchesNameIDs(t *testing.T) {
	l, c, h := staged(t)
	delete(l.sessions, h.id)
	l.resumed(c, &window.Request{}, &resumeBody{h: h}, &holdfastv1.Resumed{})
	if !c.stray {
		t.Error("touches without ids would keep the session alive")
	}
}

// When the next node refuses a session, the session can be resumed where it was.
func TestRefusedCandidateLeavesNoResumeBehind(t *testing.T) {
	l, c, h := staged(t)
	l.next = upConn("n2:7400")
	h.on = nil
	h.resuming = &window.Request{Seq: 1, Body: &resumeBody{h: h}}
	l.resumeRefused(l.next, h.resuming, &resumeBody{h: h}, session.ErrNoLeader)
	if l.next != nil || len(queued(c)) != 1 || h.resuming != queued(c)[0] {
		t.Errorf("next %v, queue %v, want the session resumed on the present connection", l.next, queued(c))
	}
}

// A client that holds nothing, at a silent node that owes it an answer, sleeps until something happens.
func TestAnIdleClientThatIsOwedAnAnswerSleeps(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l, c, _ := staged(t)
		clear(l.sessions)
		c.failing, c.touchAt = nil, time.Time{}
		l.now = time.Now()
		l.send(c, &window.Request{Body: &discardBody{}})
		time.Sleep(2 * Patience)
		if at := l.Turn(Moment{Now: time.Now()}, nil).WakeAt; !at.IsZero() && !at.After(l.now) {
			t.Errorf("the next wake was due %v ago: the core spins", l.now.Sub(at))
		}
	})
}

// A client that did not run for long finds inputs of its own before the answers that came meanwhile.
func TestAnAnswerThatWaitsInTheTurnIsNoSilence(t *testing.T) {
	for name, answer := range map[string]Input{
		"nothing came": nil,
		"an answer":    Received{Message: &holdfastv1.ServerMessage{}},
	} {
		bubble.Test(t, func(t *testing.T) {
			l, c, _ := staged(t)
			c.failing, c.touchAt, l.now = nil, time.Now().Add(time.Hour), time.Now()
			l.sendTouch(c, new(touchBody))
			time.Sleep(MaxSilence)
			if came, ok := answer.(Received); ok {
				came.Conn = c
				answer = came
			}
			l.Turn(Moment{Now: time.Now()}, nil, answer)
			if left := errors.Is(c.failing, ErrStalled); left != (answer == nil) {
				t.Errorf("%s: the node is left: %v, because of %v", name, left, c.failing)
			}
		})
	}
}

func TestWindowBoundsWhatIsOut(t *testing.T) {
	l, c, _ := staged(t)
	c.up = true
	for range 2 * window.MaxRequests {
		c.window.Push(&discardBody{})
	}
	for range 2 * window.MaxTouches {
		l.sendTouch(c, &touchBody{})
	}
	l.pump(c)
	const room = window.MaxRequests + window.MaxTouches
	if sent, wait := len(l.effects.Actions), len(queued(c)); sent != room || wait != window.MaxRequests {
		t.Errorf("%d requests sent and %d queued, want %d and %d", sent, wait, room, window.MaxRequests)
	}
}

// The timer of a session may find the end of a promise before a turn renews it. The events then report both the lapse
// and the new promise.
func TestALapseSeenByTheTimerFirstIsReported(t *testing.T) {
	l, _, h := staged(t)
	begun := time.Now()
	h.closing, h.timeout, l.now = nil, 10*time.Second, begun
	l.promise(h, &window.Request{Sent: begun}, time.Second, h.timeout)
	if l.promise(h, &window.Request{Sent: begun}, 5*time.Second, h.timeout) {
		t.Fatal("promise reports a promise before the second one")
	}
	e := l.Turn(Moment{Now: begun}, Missed{[]*Session{h}})
	if len(e.Events) != 2 || e.Events[0].Kind != KindLapsed || !e.Events[0].SafeUntil.IsZero() ||
		e.Events[1].Kind != KindRegained || !e.Events[1].SafeUntil.Equal(begun.Add(5*time.Second)) {
		t.Errorf("events %+v, want a lapse and its end", e.Events)
	}
	h.until = time.Time{}
	if e = l.Turn(Moment{Now: begun}, Missed{[]*Session{h}}); len(e.Events) > 0 {
		t.Errorf("events %+v of a session without a promise, want none", e.Events)
	}
}

// A session that is resumed while the client tries another server is asked for at the present one when the rebalance
// fails.
func TestAResumeDuringAFailedRebalanceIsSent(t *testing.T) {
	l, c, h := staged(t)
	h.closing, h.timeout, l.now = nil, 10*time.Second, time.Now()
	c.failing, c.up = errRebalanced, true
	m := &l.router
	m.Moving, m.Begun, m.Round, m.Asked = true, true, 1, 1
	l.next = upConn("n2:7400")
	l.join(new(Call), session.Token{ID: 2})
	l.resolved(Lookup{Round: 1, Server: "n3:7400", Port: "7400"}, nil, errors.New("no such host"))
	for range 3 {
		l.step()
	}
	if j := l.sessions[2]; j.on == nil && j.resuming == nil {
		t.Error("the resumed session is asked for at no node")
	}
}

// A take-over that is given up closes nothing: its token may name the attachment of the process that has the session.
func TestM1ATakeOverThatIsGivenUpClosesNothing(t *testing.T) {
	for contested, want := range []int{1, 0} {
		l, c, h := staged(t)
		h.closing, h.on, h.joining, h.contested = nil, nil, new(Call), contested
		h.joining.Want.Timeout = 12 * time.Second // an open that was answered and has to be resumed
		l.abandon(h, session.ErrClosed)
		if len(queued(c)) != want {
			t.Errorf("after %d refusals: %d closes, want %d", contested, len(queued(c)), want)
		}
	}
}

// A list that arrives while a client moves because of the former list counts from the destination of the move (spec
// 10.5). Otherwise two updates in a row would move the client twice.
func TestUpdateDuringAMoveCountsFromTheDestination(t *testing.T) {
	to := func(n int) *Conn {
		return newTestConn(fmt.Sprintf("n%d:7400", n))
	}
	for name, set := range map[string]func(*Core){
		"planned": func(l *Core) { l.router.Left = []route.Target{{Server: "n4:7400"}, {Server: "n5:7400"}} },
		"dialled": func(l *Core) { l.racing = []*Conn{to(4)} },
		"asked":   func(l *Core) { l.next = to(4) },
	} {
		t.Run(name, func(t *testing.T) {
			l, c, _ := staged(t)
			l.router.Servers = []string{"n1:7400", "n4:7400", "n5:7400"}
			if got := l.goesTo(); got != "n1:7400" {
				t.Fatalf("the destination without a move is %s, want n1", got)
			}
			c.failing, l.router.Moving = errRebalanced, true
			set(l)
			if got := l.goesTo(); got != "n4:7400" {
				t.Fatalf("the destination is %s, want n4", got)
			}
			next, racing := l.next, len(l.racing)
			l.updateServers([]string{"n1:7400", "n4:7400"}) // n4 stays, so the move goes on
			if l.next != next || len(l.racing) != racing || !l.router.Moving ||
				slices.ContainsFunc(l.router.Left, func(t route.Target) bool { return t.Server == "n5:7400" }) {
				t.Errorf("the move was given up, or goes to a removed server: %+v", l.router)
			}
			l.updateServers([]string{"n1:7400", "n2:7400"}) // n4 is removed
			if l.next != nil || len(l.racing) > 0 || !l.router.Moving || len(l.router.Left) != 1 ||
				l.router.Left[0].Server != "n2:7400" {
				t.Errorf("servers left to try: %+v, want the new server", l.router.Left)
			}
		})
	}
}

// A delayed touch is sent no later than the touch that is due anyway: a session with a short timeout may have been
// attached meanwhile.
func TestADelayedTouchIsNotLate(t *testing.T) {
	l := newTestCore()
	l.now = time.Now()
	for hint, want := range map[time.Duration]time.Duration{
		20 * time.Second: time.Second, 500 * time.Millisecond: 500 * time.Millisecond,
	} {
		c := newTestConn("n1:7400")
		c.touchAt = l.now.Add(time.Second)
		l.touchPutOff(c, &session.LimitError{Name: "max_touches_per_second", RetryAfter: hint})
		if got := c.touchAt.Sub(l.now); got < want || got > want+testMinBackoff {
			t.Errorf("asked to wait %v, touched after %v, want %v", hint, got, want)
		}
	}
}

// The rest of a round is forgotten, because the members of the cluster or the servers are others by now. The round ends
// all the same, and the next one comes after a back-off.
func TestARoundOfForgottenServersEnds(t *testing.T) {
	for name, news := range map[string]func(*Conn) Input{
		"members": func(c *Conn) Input { return Members{Conn: c, Addresses: []string{"n1:7400"}} },
		"servers": func(*Conn) Input { return Servers{[]string{"n1:7400"}} },
	} {
		t.Run(name, func(t *testing.T) {
			l, c, h := staged(t)
			h.closing, h.timeout, l.now = nil, time.Hour, time.Now()
			c.failing, c.up = session.ErrNoLeader, true
			if name == "members" {
				l.router.Learn([]string{"n2:7400"})
			} else {
				l.router.Servers = []string{"n1:7400", "n2:7400"}
			}
			l.router.Plan([]string{"n2:7400"})
			l.router.Moving, l.router.At = true, l.now.Add(time.Hour)
			e := l.Turn(Moment{Now: l.now}, news(c))
			if l.router.Begun || e.WakeAt.Sub(l.now) > testMinBackoff {
				t.Fatalf("begun: %v, the next turn is due in %v, want the round over and a back-off", l.router.Begun,
					e.WakeAt.Sub(l.now))
			}
			e = l.Turn(Moment{Now: e.WakeAt})
			if len(e.Actions) != 1 || e.Actions[0].Do != Dial || e.Actions[0].Conn.Server != "n1:7400" {
				t.Errorf("actions of the next round: %+v", e.Actions)
			}
		})
	}
}

// What the node of a dropped connection says of the members is ignored, as all else is that comes from there: its
// cluster may have gone on without it.
func TestMembersByAFormerConnectionAreIgnored(t *testing.T) {
	for former, want := range map[bool][]string{true: {"n2:7400"}, false: {"n5:7400"}} {
		l, c, _ := staged(t)
		l.now = time.Now()
		l.router.Learn([]string{"n2:7400"})
		by := c
		if former {
			by = newTestConn(c.Server)
		}
		e := l.Turn(Moment{Now: l.now}, Members{Conn: by, Addresses: []string{"n5:7400"}})
		if !slices.Equal(l.router.Learnt, want) || former != (e.Learnt == nil) || former == l.learnt {
			t.Errorf("former %v: learnt %q, told %q, want %q", former, l.router.Learnt, e.Learnt, want)
		}
		before := l.learnAt
		l.Turn(Moment{Now: l.now}, Members{Conn: by, Err: session.ErrNoLeader})
		if former != l.learnAt.Equal(before) {
			t.Errorf("former %v: asks next at %v, before a failure at %v", former, l.learnAt, before)
		}
	}
}
