package learner

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
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

// inPart has a server with session 1, whose table was swapped at 1 s in round 2 and at 1.5 s in round 3. The touch at
// 1.3 s is in round 3.
func inPart(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.follow()
	w.open(1, 1)
	w.leader.beat(session.Heartbeat{})
	time.Sleep(time.Second)
	w.leader.beat(session.Heartbeat{})
	time.Sleep(300 * time.Millisecond)
	w.conn.Touch(nil)
	time.Sleep(200 * time.Millisecond)
	w.leader.beat(session.Heartbeat{})
	return w
}

// S1: a processed answer confirms its touches as of the taking of the table for the newest confirmed answer, and all of
// them once it is confirmed itself.
func TestS1ProcessedAnswersAreConfirmedInPart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := inPart(t)
		w.leader.beat(session.Heartbeat{Processed: 3})
		w.promises("without a confirmed answer, from the open", promised(1500*time.Millisecond))
		w.leader.beat(session.Heartbeat{Confirmed: 2, Processed: 3})
		w.promises("from the taking in round 2", promised(500*time.Millisecond))
		w.leader.beat(session.Heartbeat{Confirmed: 3, Processed: 4})
		w.promises("from the touch in round 3", promised(200*time.Millisecond))
	})
}

// S1: a touch that came before the confirmed answer's taking counts from its receipt also when a later answer has it.
func TestS1NoTouchIsNewerThanItself(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := inPart(t)
		time.Sleep(time.Second)
		w.leader.beat(session.Heartbeat{})
		w.leader.beat(session.Heartbeat{Confirmed: 4, Processed: 5})
		w.promises("from the touch", promised(1200*time.Millisecond))
	})
}

func TestS1RefusedTouchesAreNotConfirmedInPart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := inPart(t)
		w.leader.beat(session.Heartbeat{Confirmed: 2, Processed: 3, RejectedTouches: []session.ID{1}})
		w.promises("of a session that was not taken, from its open", promised(1500*time.Millisecond))
	})
}

// S5: an answer from before a suspension dates no touch: the clock of this node has not shown the time between them.
func TestS5NothingIsConfirmedAsOfATimeBeforeASuspension(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := inPart(t)
		w.suspend(time.Hour)
		w.conn.Touch(nil)
		w.leader.beat(session.Heartbeat{})
		w.leader.beat(session.Heartbeat{Confirmed: 3, Processed: 4})
		w.promisesNothing("as of an answer from before the suspension")
		time.Sleep(time.Second)
		w.leader.beat(session.Heartbeat{Confirmed: 4, Processed: 5})
		w.promises("from the touch after the suspension", promised(time.Second))
	})
}

// told has the promises that a connection gets later.
type told struct {
	after []time.Duration
	safe  []time.Duration
}

// touches touches at once, and notes when more is promised, and what.
func (w *world) touches(ids ...session.ID) (session.Touched, *told) {
	w.t.Helper()
	sent, later := time.Now(), &told{}
	touched := w.conn.TouchAndConfirm(ids, func(safe time.Duration) {
		later.after, later.safe = append(later.after, time.Since(sent)), append(later.safe, safe)
	})
	return touched, later
}

// S3: the answer to a touch promises what is confirmed. When the heartbeat after the one that reported it comes, more
// is promised for the same touch.
func TestS3ATouchIsPromisedMoreOnceItIsConfirmed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		w.open(1, 1)
		w.good()
		time.Sleep(time.Second)
		w.good() // taken at 1 s, in round 2
		time.Sleep(300 * time.Millisecond)
		touched, later := w.touches()
		if want := promised(1300 * time.Millisecond); touched.SafeFor != want {
			t.Errorf("at once: %v, want %v from the open", touched.SafeFor, want)
		}
		time.Sleep(200 * time.Millisecond)
		w.leader.beat(session.Heartbeat{Good: 2, Confirmed: 1, Processed: 2})
		synctest.Wait()
		if len(later.safe) > 0 {
			t.Errorf("told %v before the touch was confirmed", later.safe)
		}
		time.Sleep(500 * time.Millisecond)
		w.leader.beat(session.Heartbeat{Good: 3, Confirmed: 2, Processed: 3})
		synctest.Wait()
		if want := promised(300 * time.Millisecond); !slices.Equal(later.safe, []time.Duration{want}) ||
			later.after[0] != 700*time.Millisecond {
			t.Errorf("told %v after %v, want %v after 700ms: from the taking in round 2", later.safe, later.after, want)
		}
	})
}

// S3: no promise follows for a session that has ended since, or for a refused touch.
func TestS3NothingMoreIsPromised(t *testing.T) {
	for name, then := range map[string]func(*world){
		"the session ended": func(w *world) { w.move(1, 9) },
		"not taken":         func(*world) {},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.follow()
				w.open(1, 1)
				w.good()
				time.Sleep(time.Second)
				_, later := w.touches()
				w.good()
				then(w)
				w.leader.beat(session.Heartbeat{Good: 3, Confirmed: 2, Processed: 3, RejectedTouches: []session.ID{1}})
				synctest.Wait()
				if len(later.safe) > 0 {
					t.Errorf("told %v", later.safe)
				}
			})
		})
	}
}

// S3: a touch by token waits for its confirmation, as long as its caller wants.
func TestS3ATokenWaitsForItsConfirmation(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		w.open(1, 1)
		w.good()
		time.Sleep(time.Second)
		w.good() // taken at 1 s, in round 2
		time.Sleep(300 * time.Millisecond)
		unary := w.connect(nil)
		tokens := []session.Token{w.token(1, 1)}
		since := time.Now()
		if _, err := unary.TouchToken(t.Context(), tokens[0]); err != nil {
			t.Fatal(err)
		}
		within, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := make(chan []time.Duration, 1)
		go func() { done <- unary.Confirmed(within, since, tokens) }()
		time.Sleep(200 * time.Millisecond)
		w.leader.beat(session.Heartbeat{Good: 2, Confirmed: 1, Processed: 2})
		time.Sleep(500 * time.Millisecond)
		w.leader.beat(session.Heartbeat{Good: 3, Confirmed: 2, Processed: 3})
		if got, want := <-done, promised(300*time.Millisecond); got[0] != want || time.Since(since) != 700*time.Millisecond {
			t.Errorf("promised %v after %v, want %v after 700ms", got, time.Since(since), want)
		}
		since = time.Now()
		if got := unary.Confirmed(within, since, tokens); time.Since(since) != 300*time.Millisecond || got[0] < 0 {
			t.Errorf("promised %v after %v, want what there is after the 300ms left", got, time.Since(since))
		}
		time.Sleep(jeopardyIntervals * interval)
		since = time.Now()
		if unary.Confirmed(t.Context(), since, tokens); time.Since(since) != 0 {
			t.Errorf("in jeopardy it waited for %v", time.Since(since))
		}
	})
}

func TestS1RefusedTouchesAreNotConfirmed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := reported(t, 2)
		w.leader.beat(session.Heartbeat{Confirmed: 2, RejectedTouches: []session.ID{1}})
		w.promises("of the session that was not taken, from its open", promised(time.Second), 1)
		w.promises("of the other session", promised(0), 2)
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
		s := session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 1}
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
		if got := l.beat(session.Heartbeat{}).StallAge; got != 0 {
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
			a := server.table.attach(session.Session{
				ID: id, Spec: session.Spec{Timeout: timeout},
				Attachment: uint64(id),
			},
				nil, mark{tag: server.table.nextTag()}, 0)
			wg.Go(func() {
				<-begin
				woken := instant{mono: server.clock.now(), wall: time.Now().Add(time.Hour).Round(0)}
				server.clock.stalls.observe(woken)
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
		s := session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 1}
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
