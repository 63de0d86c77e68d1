package learner

import (
	"sync"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// reported has a server with sessions 1 to n, opened in round 1. A second later the client touched all of them, and
// round 2 reported the touches.
func reported(t *testing.T, n session.ID) *world {
	t.Helper()
	w := newWorld(t)
	w.follow()
	for id := session.ID(1); id <= n; id++ {
		w.open(id, uint64(id))
	}
	w.leader.beat(session.Heartbeat{})
	time.Sleep(time.Second)
	w.conn.Touch(nil)
	w.leader.beat(session.Heartbeat{})
	return w
}

func TestS1ConfirmsWhatWasReported(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := reported(t, 1)
		time.Sleep(time.Second)
		w.promises("before the confirmation", promised(2*time.Second)) // from the open
		w.leader.beat(session.Heartbeat{Confirmed: 2})
		w.promises("after the confirmation", promised(time.Second)) // from the touch in round 2
	})
}

func TestS1NotTakenIsNotConfirmed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := reported(t, 2)
		w.leader.beat(session.Heartbeat{Confirmed: 2, NotTaken: []session.ID{1}})
		w.promises("of the session that was not taken, from its open", promised(time.Second), 1)
		w.promises("of the other session", promised(0), 2)
	})
}

// S1: the leader names a touch that it did not take only once. The relay heeds the name even when it has forgotten the
// answer that reported the touch, because the next confirmation covers that answer.
func TestS1NotTakenOutlivesItsAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := reported(t, 2)
		time.Sleep(time.Second)
		w.conn.Touch([]session.ID{2})
		for range maxUnconfirmed {
			w.leader.beat(session.Heartbeat{})
		}
		w.leader.beat(session.Heartbeat{Confirmed: 2, NotTaken: []session.ID{1}})
		w.leader.beat(session.Heartbeat{Confirmed: w.leader.round})
		w.promises("of the session that was not taken, from its open", promised(2*time.Second), 1)
		w.promises("of the other session", promised(0), 2)
	})
}

// S1: a refusal of a touch in a forgotten answer leaves later reports alone.
func TestS1ARefusalOfAForgottenAnswerLeavesLaterReports(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		for range 1 + maxUnconfirmed {
			l.beat(session.Heartbeat{})
		}
		time.Sleep(time.Second)
		w.conn.Touch(nil)
		l.beat(session.Heartbeat{}) // reports the touch
		l.beat(session.Heartbeat{Confirmed: 1, NotTaken: []session.ID{1}})
		l.beat(session.Heartbeat{Confirmed: l.round})
		w.promises("from the later report", promised(0))
	})
}

func TestS1AnEndedStreamConfirmsNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := reported(t, 1) // and the first stream confirms nothing
		l := w.follow()
		l.round = 5
		l.beat(session.Heartbeat{Confirmed: 5}) // confirms rounds that the second stream has not answered
		w.promises("from the open", promised(time.Second))
		time.Sleep(time.Second)
		l.beat(session.Heartbeat{Confirmed: 6})
		w.promises("from the touch that the second stream reported", promised(time.Second))
	})
}

func TestS1ConfirmedBeforeTheStreamEndedStaysConfirmed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := reported(t, 1)
		w.leader.beat(session.Heartbeat{Confirmed: 2})
		w.follow().beat(session.Heartbeat{})
		w.promises("on the second stream", promised(0))
	})
}

func TestS2OpensAreConfirmedByTheirCommit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		if got, want := w.open(1, 1).SafeFor, promised(0); got != want {
			t.Errorf("promise of the open: %v, want %v", got, want)
		}
		time.Sleep(time.Second)
		w.promises("of the first touch", promised(time.Second))
	})
}

func TestS2ARepeatConfirmsNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		s := session.Session{ID: 1, Timeout: timeout, Owner: 1, Attachment: 1}
		w.view.put(s)
		done := w.opening()
		l.reply(session.Reply{Seq: l.request().Seq, Session: s, Repeated: true})
		if got := (<-done).SafeFor; got >= 0 {
			t.Errorf("promise of a repeated open: %v, want none", got)
		}
		w.promisesNothing("of a touch with nothing confirmed")
	})
}

func TestS3TheSmallestPromiseAnswersForAll(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		w.open(1, 1)
		time.Sleep(2 * time.Second)
		w.open(2, 2)
		w.promises("of the older session", promised(2*time.Second))
		time.Sleep(timeout)
		w.promisesNothing("a timeout after the newest confirmed touch")
	})
}

func TestS5ASuspendedMachineDropsPromises(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		w.conn.Touch(nil)
		l.beat(session.Heartbeat{}) // reports the touch, which is confirmed after the suspension
		w.suspend(aheadLimit + 1)
		l.beat(session.Heartbeat{Confirmed: 1})
		w.promisesNothing("after a suspension")
		if got := l.beat(session.Heartbeat{}).VouchAge; got != 0 {
			t.Errorf("vouches for %v after a suspension, want 0", got)
		}
		l.beat(session.Heartbeat{Confirmed: 3})
		w.promises("from a touch after the suspension", promised(0))
	})
}

// S5: many clients touch at once when a machine wakes up. No touch gets a promise before the promises are dropped.
func TestS5NobodyGetsPastTheDrop(t *testing.T) {
	const rounds, connections = 100, 32
	for range rounds {
		server := NewServer(config(), newFakeView())
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for id := session.ID(1); id <= connections; id++ {
			a := server.table.attach(session.Session{ID: id, Timeout: timeout, Attachment: uint64(id)},
				nil, mark{tag: server.table.nextTag()}, 0)
			wg.Go(func() {
				<-begin
				woken := instant{mono: server.clock.now(), wall: time.Now().Add(time.Hour).Round(0)}
				server.clock.stalls.look(woken)
				if safe, err := server.table.touch(a, woken.mono); err != nil || safe >= 0 {
					t.Errorf("promise after an hour of suspension: %v, %v", safe, err)
				}
			})
		}
		close(begin)
		wg.Wait()
	}
}

func TestS5AnOpenOverASuspensionPromisesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		s := session.Session{ID: 1, Timeout: timeout, Owner: 1, Attachment: 1}
		w.view.put(s)
		done := w.opening()
		seq := l.request().Seq
		w.suspend(time.Hour)
		l.reply(session.Reply{Seq: seq, Session: s})
		if got := (<-done).SafeFor; got >= 0 {
			t.Errorf("promise of an open that a suspension interrupted: %v, want none", got)
		}
	})
}
