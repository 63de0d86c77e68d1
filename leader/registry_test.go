package leader

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// registered returns a registry that is not filled, under rounds with an interval of a second.
func registered() *registry {
	cfg := &Config{Term: 1, Interval: time.Second, Logger: hclog.NewNullLogger()}
	var p population
	return newRegistry(time.Second, newHeartbeats(cfg, newTerm(1, p), p, &counters{}, newSignal()))
}

// shown is session 5 as the state shows it.
func shown(attachment uint64) session.Session {
	return session.Session{ID: 5, Owner: 2, Attachment: attachment, Spec: session.Spec{Timeout: 10 * time.Second}}
}

// R1: rounds are frequent enough for a session once it is filed, however it is filed.
func TestR1TheRegistryNotesTimeouts(t *testing.T) {
	short := session.Session{ID: 5, Owner: 2, Attachment: 3, Spec: session.Spec{Timeout: 800 * time.Millisecond}}
	for name, file := range map[string]func(r *registry){
		"an entry":   func(r *registry) { r.apply(&session.Change{Kind: session.Opened, Session: short}, 0) },
		"the filler": func(r *registry) { r.fill(population{short}, func() bool { return true }, func(int) {}) },
		"a close": func(r *registry) {
			if _, err := r.mark(&session.Token{ID: 5, Attachment: 3}, &short); err != nil {
				t.Error(err)
			}
		},
	} {
		r := registered()
		r.note(time.Hour)
		file(r)
		if got := r.heartbeats.pace.interval(); got != 100*time.Millisecond {
			t.Errorf("filed by %s: rounds begin every %v, want an eighth of %v", name, got, short.Timeout)
		}
		if got := r.longestTimeout(); got != time.Hour {
			t.Errorf("filed by %s: the longest timeout is %v, want an hour", name, got)
		}
	}
}

// K-10: filling brings no session back that has ended. A filling that is cut short leaves the registry unfilled.
func TestRegistryFill(t *testing.T) {
	all := population{shown(3), {ID: 6, Attachment: 4, Spec: session.Spec{Timeout: 10 * time.Second}}}
	r := registered()
	r.apply(&session.Change{Kind: session.Ended, Session: all[0]}, 0)
	if r.fill(all, func() bool { return false }, func(int) {}) || !r.shard(5).filling() {
		t.Error("the registry is filled by a filling that was cut short")
	}
	filed := 0
	if !r.fill(all, func() bool { return true }, func(n int) { filed += n }) || filed != 2 || r.shard(5).filling() {
		t.Errorf("the registry is not filled by %d sessions, want 2", filed)
	}
	var got Stats
	if r.describe(&got); got.Sessions != 1 {
		t.Errorf("%d sessions, want 1: the other had ended", got.Sessions)
	}
}

// M2, E4: a mark needs the session's own attachment, and only the close that set a mark removes it.
func TestRegistryMarks(t *testing.T) {
	r, one := registered(), shown(7)
	r.apply(&session.Change{Kind: session.Opened, Session: one}, 0)
	for attachment, want := range map[uint64]error{6: session.ErrMoved, 8: session.ErrLagging} {
		if _, err := r.mark(&session.Token{ID: 5, Attachment: attachment}, &one); !errors.Is(err, want) {
			t.Errorf("mark under attachment %d of 7: %v, want %v", attachment, err, want)
		}
	}
	tok := session.Token{ID: 5, Attachment: 7}
	c, err := r.mark(&tok, &one)
	if err != nil || !r.closing(5) {
		t.Fatalf("mark: %v, closing %v", err, r.closing(5))
	}
	if _, err = r.mark(&tok, &one); !errors.Is(err, session.ErrClosing) {
		t.Errorf("second mark: %v, want %v", err, session.ErrClosing)
	}
	r.unmark(session.Closing{ID: 5, Attachment: 6})
	if !r.closing(5) {
		t.Error("the close of a former attachment took the mark back")
	}
	if r.unmark(c); r.closing(5) {
		t.Error("the mark stays after its close was refused")
	}
	r.apply(&session.Change{Kind: session.Ended, Session: one}, 0)
	if _, err = r.mark(&tok, &one); !errors.Is(err, session.ErrExpired) {
		t.Errorf("mark of an ended session: %v, want %v", err, session.ErrExpired)
	}
}
