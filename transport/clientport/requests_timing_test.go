package clientport

import (
	"slices"
	"testing"
	"time"

	"holdfast/session"
)

// Each touch of all sessions reports what was left of the promise before it, 0 when that had run out.
func TestWhatIsLeftOfAPromise(t *testing.T) {
	var left []time.Duration
	c := &connection{server: &sessionServer{cfg: Config{Touched: func(d time.Duration) { left = append(left, d) }}}}
	now := time.Now()
	for _, touch := range []struct{ after, safe time.Duration }{
		{0, 10 * time.Second},
		{3 * time.Second, 9 * time.Second},
		{12 * time.Second, -1}, // nothing is promised
		{time.Second, 5 * time.Second},
		{5 * time.Second, 5 * time.Second},
	} {
		now = now.Add(touch.after)
		c.renewed(now, nil, touch.safe)
	}
	if want := []time.Duration{7 * time.Second, 0, 0}; !slices.Equal(left, want) {
		t.Errorf("left were %v, want %v", left, want)
	}
}

// A client whose sessions have different timeouts touches them separately. The reported rest is of the promise that
// runs out first: at each touch of a session that has it, until that session has gone.
func TestWhatIsLeftOfAPromiseOfSessionsTouchedApart(t *testing.T) {
	var left []time.Duration
	c := &connection{
		server:      &sessionServer{cfg: Config{Touched: func(d time.Duration) { left = append(left, d) }}},
		streamState: &streamState{sessions: map[session.ID]uint64{1: 1, 2: 2, 3: 3}},
	}
	now := time.Now()
	for _, touch := range []struct {
		after, safe time.Duration
		ids         []session.ID
		gone        session.ID
	}{
		{safe: 3 * time.Second}, // of all, before there were others
		{after: 1 * time.Second, safe: 3 * time.Second, ids: []session.ID{1}},     // a sign of life counts for nothing
		{after: 3 * time.Second, safe: 30 * time.Second, ids: []session.ID{2, 3}}, // apart from here on
		{safe: 3 * time.Second, ids: []session.ID{1}},
		{after: 1 * time.Second, safe: 30 * time.Second, ids: []session.ID{3, 2}},
		{safe: 3 * time.Second, ids: []session.ID{1}},
		{after: 5 * time.Second, safe: 30 * time.Second, ids: []session.ID{2, 3}},
		{safe: 3 * time.Second, ids: []session.ID{1}},
		{after: 1 * time.Second, safe: 30 * time.Second, ids: []session.ID{2, 3}, gone: 1},
		{after: 10 * time.Second, safe: 30 * time.Second, ids: []session.ID{3, 2}},
	} {
		now = now.Add(touch.after)
		delete(c.streamState.sessions, touch.gone)
		c.renewed(now, touch.ids, touch.safe)
	}
	if want := []time.Duration{2 * time.Second, 0, 20 * time.Second}; !slices.Equal(left, want) {
		t.Errorf("left were %v, want %v", left, want)
	}
}

// Two groups of sessions with nearly the same timeout are touched in turn, and each promise becomes longer once its
// touch is confirmed. The rest is reported nevertheless: the longer promise is not compared with the first answer of
// another touch.
func TestWhatIsLeftOfPromisesThatAreConfirmed(t *testing.T) {
	var left []time.Duration
	c := &connection{
		server:      &sessionServer{cfg: Config{Touched: func(d time.Duration) { left = append(left, d) }}},
		streamState: &streamState{sessions: map[session.ID]uint64{1: 1, 2: 2}},
	}
	now := time.Now()
	touch := func(id session.ID, first, confirmed time.Duration) {
		c.renewed(now, []session.ID{id}, first)
		c.promised.extend([]session.ID{id}, now.Add(confirmed))
		now = now.Add(1700 * time.Millisecond)
	}
	for range 3 {
		touch(1, 6600*time.Millisecond, 9400*time.Millisecond)
		touch(2, 6900*time.Millisecond, 9900*time.Millisecond)
	}
	if want := []time.Duration{6 * time.Second, 6 * time.Second}; !slices.Equal(left, want) {
		t.Errorf("left were %v, want %v", left, want)
	}
}
