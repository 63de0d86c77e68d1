package learner

import (
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/test/bubble"
)

func TestS1ConfirmsWhatWasReported(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		l.beat(session.Heartbeat{}) // round 1
		time.Sleep(time.Second)
		w.conn.Touch(nil)           // A
		l.beat(session.Heartbeat{}) // round 2 reports A
		time.Sleep(time.Second)
		if got, want := w.conn.Touch(nil).SafeFor, promised(2*time.Second); got != want {
			t.Errorf("promise before the confirmation: %v, want %v, from the open", got, want)
		}
		l.beat(session.Heartbeat{Confirmed: 2})
		if got, want := w.conn.Touch(nil).SafeFor, promised(time.Second); got != want {
			t.Errorf("promise after the confirmation: %v, want %v, from touch A", got, want)
		}
	})
}

func TestS1NotTakenIsNotConfirmed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		w.open(2, 2)
		l.beat(session.Heartbeat{})
		time.Sleep(time.Second)
		w.conn.Touch(nil)
		l.beat(session.Heartbeat{}) // round 2
		l.beat(session.Heartbeat{Confirmed: 2, NotTaken: []session.ID{1}})
		if got, want := w.conn.Touch([]session.ID{1}).SafeFor, promised(time.Second); got != want {
			t.Errorf("promise of the session that was not taken: %v, want %v, from its open", got, want)
		}
		if got, want := w.conn.Touch([]session.ID{2}).SafeFor, promised(0); got != want {
			t.Errorf("promise of the other: %v, want %v", got, want)
		}
	})
}

// S1: the leader names each touch that it did not take once. The name counts when the relay remembers the answer no
// more, too: the next confirmation covers that answer.
func TestS1NotTakenOutlivesItsAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		w.open(2, 2)
		l.beat(session.Heartbeat{})
		time.Sleep(time.Second)
		w.conn.Touch(nil)
		l.beat(session.Heartbeat{}) // round 2 reports it
		time.Sleep(time.Second)
		w.conn.Touch([]session.ID{2})
		for range maxUnconfirmed {
			l.beat(session.Heartbeat{})
		}
		l.beat(session.Heartbeat{Confirmed: 2, NotTaken: []session.ID{1}})
		l.beat(session.Heartbeat{Confirmed: l.round})
		if got, want := w.conn.Touch([]session.ID{1}).SafeFor, promised(2*time.Second); got != want {
			t.Errorf("promise of the session that was not taken: %v, want %v, from its open", got, want)
		}
		if got, want := w.conn.Touch([]session.ID{2}).SafeFor, promised(0); got != want {
			t.Errorf("promise of the other: %v, want %v", got, want)
		}
	})
}

// A refusal of an answer that is remembered no more costs the later ones nothing.
func TestS1ARefusalOfAForgottenAnswerLeavesLaterReports(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		l.beat(session.Heartbeat{})
		for range maxUnconfirmed {
			l.beat(session.Heartbeat{})
		}
		time.Sleep(time.Second)
		w.conn.Touch(nil)
		l.beat(session.Heartbeat{}) // reports it
		l.beat(session.Heartbeat{Confirmed: 1, NotTaken: []session.ID{1}})
		l.beat(session.Heartbeat{Confirmed: l.round})
		if got, want := w.conn.Touch(nil).SafeFor, promised(0); got != want {
			t.Errorf("promise: %v, want %v, from the later report", got, want)
		}
	})
}

func TestS1AnEndedStreamConfirmsNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		l.beat(session.Heartbeat{})
		time.Sleep(time.Second)
		w.conn.Touch(nil)
		l.beat(session.Heartbeat{}) // reported on the first stream, never confirmed there
		l = w.follow()
		l.round = 5
		l.beat(session.Heartbeat{Confirmed: 5}) // a confirmation of what this stream has not answered
		if got, want := w.conn.Touch(nil).SafeFor, promised(time.Second); got != want {
			t.Errorf("promise: %v, want %v, from the open", got, want)
		}
		time.Sleep(time.Second)
		l.beat(session.Heartbeat{Confirmed: 6})
		if got, want := w.conn.Touch(nil).SafeFor, promised(time.Second); got != want {
			t.Errorf("promise after the new stream's confirmation: %v, want %v, from the touch it reported", got, want)
		}
	})
}

func TestS1ConfirmedBeforeTheStreamEndedStaysConfirmed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		l.beat(session.Heartbeat{})
		time.Sleep(time.Second)
		w.conn.Touch(nil)
		l.beat(session.Heartbeat{})
		l.beat(session.Heartbeat{Confirmed: 2})
		l = w.follow()
		l.beat(session.Heartbeat{})
		if got, want := w.conn.Touch(nil).SafeFor, promised(0); got != want {
			t.Errorf("promise: %v, want %v", got, want)
		}
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
		if got, want := w.conn.Touch(nil).SafeFor, promised(time.Second); got != want {
			t.Errorf("promise of the first touch: %v, want %v", got, want)
		}
	})
}

func TestS2ARepeatConfirmsNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		s := session.Session{ID: 1, Timeout: timeout, Owner: 1, Attachment: 1}
		w.view.put(s)
		done := make(chan session.Grant)
		go func() {
			g, _ := w.conn.Open(t.Context(), session.OpenRequest{Timeout: timeout})
			done <- g
		}()
		l.reply(session.Reply{Seq: l.request().Seq, Session: s, Repeated: true})
		if got := (<-done).SafeFor; got >= 0 {
			t.Errorf("promise of a repeated open: %v, want none", got)
		}
		if got := w.conn.Touch(nil).SafeFor; got >= 0 {
			t.Errorf("promise of a touch with nothing confirmed: %v, want none", got)
		}
	})
}

func TestS3TheSmallestPromiseAnswersForAll(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		w.open(1, 1)
		time.Sleep(2 * time.Second)
		w.open(2, 2)
		if got, want := w.conn.Touch(nil).SafeFor, promised(2*time.Second); got != want {
			t.Errorf("promise: %v, want %v, that of the older session", got, want)
		}
		time.Sleep(timeout)
		if got := w.conn.Touch(nil).SafeFor; got >= 0 {
			t.Errorf("promise when the newest confirmed touch is a timeout old: %v, want none", got)
		}
	})
}

func TestS5ASuspendedMachineDropsPromises(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		w.conn.Touch(nil)
		l.beat(session.Heartbeat{}) // reported before the suspension, confirmed after it
		suspend := instant{mono: time.Since(w.server.clock.base), wall: time.Now().Add(aheadLimit + 1).Round(0)}
		w.server.clock.stalls.look(suspend)
		l.beat(session.Heartbeat{Confirmed: 1})
		if got := w.conn.Touch(nil).SafeFor; got >= 0 {
			t.Errorf("promise after a suspension: %v, want none", got)
		}
		if got := l.beat(session.Heartbeat{}).VouchAge; got != 0 {
			t.Errorf("vouches for %v after a suspension, want 0", got)
		}
		l.beat(session.Heartbeat{Confirmed: 3})
		if got, want := w.conn.Touch(nil).SafeFor, promised(0); got != want {
			t.Errorf("promise from a touch after the suspension: %v, want %v", got, want)
		}
	})
}

// Everyone touches at once when a machine wakes up: nobody may get past the drop.
func TestS5NobodyGetsPastTheDrop(t *testing.T) {
	const rounds, connections = 100, 32
	for range rounds {
		server := NewServer(Config{Node: 1, Interval: interval, Logger: hclog.NewNullLogger()}, newFakeView())
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for id := session.ID(1); id <= connections; id++ {
			a := server.table.attach(session.Session{ID: id, Timeout: timeout, Attachment: uint64(id)},
				nil, mark{tag: server.table.nextTag()}, 0)
			wg.Go(func() {
				<-begin
				woken := instant{mono: time.Since(server.clock.base), wall: time.Now().Add(time.Hour).Round(0)}
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
		done := make(chan session.Grant)
		go func() {
			g, _ := w.conn.Open(t.Context(), session.OpenRequest{Timeout: timeout})
			done <- g
		}()
		seq := l.request().Seq
		w.server.clock.stalls.look(
			instant{mono: time.Since(w.server.clock.base), wall: time.Now().Add(time.Hour).Round(0)},
		)
		l.reply(session.Reply{Seq: seq, Session: s})
		if got := (<-done).SafeFor; got >= 0 {
			t.Errorf("promise of an open that a suspension interrupted: %v, want none", got)
		}
	})
}
