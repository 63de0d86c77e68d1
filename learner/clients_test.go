package learner

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// N1: an idle client learns that its node is read-only, by a second word of jeopardy.
func TestN1IdleClientsHearOfTheMode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, _ := cutOff(t)
		late := &events{}
		defer w.connect(late).Disconnect()
		time.Sleep(look)
		if want := []bool{true, true}; !slices.Equal(w.events.perils(), want) {
			t.Errorf("told %v, want jeopardy twice", w.events.perils())
		}
		if want := []bool{true}; !slices.Equal(late.perils(), want) {
			t.Errorf("the client that came late was told %v, want jeopardy once", late.perils())
		}
		w.good()
		synctest.Wait()
		if want := []bool{true, true, false}; !slices.Equal(w.events.perils(), want) {
			t.Errorf("told %v, want the end of jeopardy", w.events.perils())
		}
		if err := w.server.Ready(); err != nil {
			t.Errorf("ready: %v", err)
		}
	})
}

// S4, R1: jeopardy begins after three of the leader's intervals.
func TestS4JeopardyAfterThreeIntervalsOfTheLeader(t *testing.T) {
	for _, told := range []time.Duration{4 * interval, interval / 5} {
		t.Run(told.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t)
				l := w.follow()
				l.beat(session.Heartbeat{Good: 1, Interval: interval * 3 / 2}) // the next heartbeat replaces it
				l.beat(session.Heartbeat{Good: 2, Interval: told})
				begin := time.Now()
				time.Sleep(60 * interval)
				synctest.Wait()
				w.events.mu.Lock()
				defer w.events.mu.Unlock()
				if len(w.events.at) != 1 {
					t.Fatalf("told jeopardy %v, want it once", w.events.jeopardy)
				}
				after := w.events.at[0].Sub(begin)
				if least := jeopardyIntervals * told; after <= least || after > least+interval/4 {
					t.Errorf("told of jeopardy after %v, want just above %v", after, least)
				}
			})
		})
	}
}

func TestS4JeopardyAfterThreeIntervalsWithoutAGoodRound(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		begin := time.Now()
		l.beat(session.Heartbeat{Good: 1})
		time.Sleep(interval)
		l.beat(session.Heartbeat{Good: 1}) // no new good round
		time.Sleep(10 * interval)
		l.beat(session.Heartbeat{Good: 2})
		synctest.Wait()
		w.events.mu.Lock()
		defer w.events.mu.Unlock()
		if got := w.events.jeopardy; len(got) != 2 || !got[0] || got[1] {
			t.Fatalf("told jeopardy %v, want its begin and its end", got)
		}
		told := w.events.at[0].Sub(begin)
		if told <= jeopardyIntervals*interval || told > jeopardyIntervals*interval+interval/4 {
			t.Errorf("told of jeopardy after %v, want just above %v", told, jeopardyIntervals*interval)
		}
		if got := w.events.at[1].Sub(begin); got != 11*interval {
			t.Errorf("told of the end of jeopardy after %v, want at once, after %v", got, 11*interval)
		}
		if len(w.events.try) != 1 || w.events.try[0] != "other:7400" {
			t.Errorf("told to try %v", w.events.try)
		}
	})
}

func TestS4AConnectionMadeInJeopardyLearnsOfItAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		time.Sleep(5 * interval)
		e := &events{}
		defer w.connect(e).Disconnect()
		synctest.Wait()
		if len(e.jeopardy) != 1 {
			t.Errorf("told %v, want jeopardy", e.jeopardy)
		}
	})
}
