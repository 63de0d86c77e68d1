package window

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// ask is a Body.
type ask struct{ unwanted bool }

// Wanted implements Body.
func (a *ask) Wanted() bool { return !a.unwanted }

// Requests that were refused for now are queued again in the order of their retry times.
func TestRequestsComeBackWhenTheyAreDue(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	begun := time.Now()
	w := New()
	const requests = 1000
	for range requests {
		w.Defer(new(Request), begun.Add(time.Duration(random.IntN(500))*time.Second))
	}
	if !w.Defers() {
		t.Error("PutsOff: got false while all requests wait for their retry times")
	}
	came := 0
	for now := begun; came < requests; now = now.Add(7 * time.Second) {
		if w.DueAt().IsZero() {
			t.Fatalf("nothing is due, although %d requests are left", requests-came)
		}
		w.Resume(now)
		queued := slices.Collect(w.Queued())[came : requests-len(w.Later())]
		for _, r := range queued {
			if r.Due.After(now) || r.Due.Before(now.Add(-7*time.Second+1)) {
				t.Errorf("a request that was due at %v came back at %v", r.Due, now)
			}
		}
		came += len(queued)
	}
	if !w.DueAt().IsZero() || len(w.Later()) != 0 {
		t.Error("requests are left after all came back")
	}
}

// One back-off serves all requests that are refused during it without a retry time.
func TestOneBackoffCoversAllRefusals(t *testing.T) {
	w, now, draws := New(), time.Now(), 0
	wait := func() time.Duration { draws++; return time.Second }
	for i := range 3 {
		if got, want := w.Backoff(), 1; got != want {
			t.Errorf("refusal %d: back-off %d, want %d", i, got, want)
		}
		w.Defer(new(Request), w.Pause(now.Add(time.Duration(i)*time.Millisecond), wait))
	}
	if draws != 1 || !w.DueAt().Equal(now.Add(time.Second)) {
		t.Errorf("%d draws, due %v, want one draw and all after a second", draws, w.DueAt().Sub(now))
	}
	w.Resume(now.Add(time.Second))
	if got := w.Backoff(); got != 2 {
		t.Errorf("back-off %d after the first, want 2", got)
	}
	w.Served()
	if got := w.Backoff(); got != 1 {
		t.Errorf("back-off %d after something was served, want 1", got)
	}
}

// An unwanted request is not sent, and an answer is taken once.
func TestNextAndTake(t *testing.T) {
	w, now := New(), time.Now()
	w.Push(&ask{unwanted: true})
	wanted := w.Push(new(ask))
	r := w.Next()
	if r != wanted || w.Next() != nil {
		t.Fatalf("got %v, want the wanted request only", r)
	}
	if !w.StallAt(time.Second, time.Second).IsZero() {
		t.Error("StallsAt: got a time while the node owes no answer")
	}
	w.Send(r, now, 3)
	if r.Seq != w.Seq() || !r.Sent.Equal(now) || r.Suspensions != 3 ||
		!w.StallAt(time.Second, time.Minute).Equal(now.Add(time.Second)) {
		t.Errorf("sent as %+v, stalls at %v", r, w.StallAt(time.Second, time.Minute))
	}
	if got, ok := w.Remove(r.Seq); !ok || got != r {
		t.Errorf("took %v, %v", got, ok)
	}
	if _, again := w.Remove(r.Seq); again {
		t.Error("an answer is taken twice")
	}
	touches := 0
	for touch := w.Touch(new(ask)); touch != nil; touch = w.Touch(new(ask)) {
		w.Send(touch, now, 0)
		touches++
	}
	if touches != MaxTouches {
		t.Errorf("%d touches in flight, want %d", touches, MaxTouches)
	}
	if _, ok := w.Remove(w.Seq()); !ok || w.Touch(new(ask)) == nil {
		t.Error("an answer makes no room for a touch")
	}
}

// A refusal after the node has done something is the first of its row, also while a request waits from before.
func TestARowOfBackoffsRestartsWhileRequestsWait(t *testing.T) {
	w, now := New(), time.Now()
	w.Backoff()
	w.Defer(new(Request), now.Add(time.Minute))
	w.Served()
	for range 2 {
		if got := w.Backoff(); got != 1 {
			t.Errorf("back-off %d, want 1", got)
		}
		w.Defer(new(Request), now.Add(time.Second))
	}
}
