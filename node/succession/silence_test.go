package succession

import (
	"testing"
	"time"

	"holdfast/session"
)

// TestF1ALeaderThatFreezes: its connections stay open, and nothing is heard of it.
func TestF1ALeaderThatFreezes(t *testing.T) {
	const limit = 1500 * time.Millisecond
	open := func(silence time.Duration) Facts {
		return facts(func(f *Facts) {
			f.Silence = silence
			f.Links = func(session.Node) Links { return Links{Open: 2, Opened: 3} }
		})
	}
	m := New(2, limit)
	e := m.Wake(epoch.Add(-time.Hour), open(0))
	for at := e.Wake; at.Before(epoch); at = e.Wake {
		if e = m.Wake(at, open(0)); e.Canvass != nil || e.Wake.Sub(at) != limit/wakesPerLimit {
			t.Fatalf("in calm: %+v", e)
		}
	}
	e = m.Wake(epoch, open(0))
	var asked *Canvass
	for at := e.Wake; asked == nil; at = e.Wake {
		silent := at.Sub(epoch)
		if silent > limit {
			t.Fatal("it asks nobody at the limit")
		}
		e = m.Wake(at, open(silent))
		if asked = e.Canvass; asked != nil && silent < limit {
			t.Fatalf("it asks after %v", silent)
		}
	}
	now := m.run.canvassedAt[0]
	heard := *m
	if e := heard.Wake(now, open(time.Millisecond)); e.Canvass != nil || heard.run.phase != idle {
		t.Error("a heartbeat does not take it back")
	}
	m.Backed(now, open(limit), asked.Number, 3)
	stand := m.Backed(now, open(limit), asked.Number, 4).Campaign
	if stand == nil || stand.Evidence != Silent || !stand.Current(open(limit)) || stand.Current(open(limit-1)) {
		t.Errorf("with a majority: %+v", stand)
	}
}

// TestF1APauseIsNoSilence: a process that did not run has heard nothing, and has not listened either.
func TestF1APauseIsNoSilence(t *testing.T) {
	const limit = 1500 * time.Millisecond
	frozen := facts(func(f *Facts) {
		f.Silence = time.Minute
		f.Links = func(session.Node) Links { return Links{Open: 2, Opened: 3} }
	})
	for late, want := range map[time.Duration]bool{paused: true, paused + 1: false} {
		m := New(4, limit)
		e := m.Wake(epoch.Add(-time.Hour), facts(links(Links{Open: 2, Opened: 3})))
		for at := e.Wake; at.Before(epoch); at = e.Wake {
			e = m.Wake(at, facts(links(Links{Open: 2, Opened: 3})))
		}
		if got, _ := m.OnQuestion(e.Wake.Add(late), frozen, 3, wants); got != want {
			t.Errorf("woken %v late: backs %v", late, got)
		}
	}
}

// TestF1ALeaderThatWasJustFoundIsNotSilent: Raft names a leader before it notes the contact, so a node that was alone
// for long sees a leader beside an old silence.
func TestF1ALeaderThatWasJustFoundIsNotSilent(t *testing.T) {
	const limit = 1500 * time.Millisecond
	alone := func(leader session.Node) Facts {
		return facts(func(f *Facts) {
			f.Leader, f.Silence = leader, time.Minute
			f.Links = func(session.Node) Links { return Links{Open: 2, Opened: 3} }
		})
	}
	m := New(4, limit)
	for at := epoch; at.Before(epoch.Add(time.Minute)); at = at.Add(paused) {
		m.Wake(at, alone(0))
	}
	found := epoch.Add(time.Minute)
	if m.Wake(found, alone(1)); m.finds(found, alone(1), 1) {
		t.Error("a leader that has just spoken is taken for silent")
	}
	for at := found; at.Before(found.Add(limit)); at = at.Add(paused) {
		m.Wake(at, alone(1))
	}
	if late := found.Add(limit); !m.finds(late, alone(1), 1) {
		t.Error("a leader that has been silent since is not found so")
	}
}
