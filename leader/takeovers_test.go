package leader_test

import (
	"errors"
	"testing"
	"time"

	"holdfast/session"
)

// wants asks for a session in the name of an instance, with its present attachment.
func wants(m *member, id session.ID, instance uint64) error {
	now, _ := m.w.view.Session(id)
	return m.ask(session.Request{Resume: &session.ResumeRequest{Token: token(now), Instance: instance, Attempt: 1}}).Err
}

// silence answers no heartbeat.
func silence(*session.Heartbeat) *session.Answer { return nil }

// held puts a session into the state that an instance has at node 2.
func (w *world) held(id session.ID, instance uint64) {
	w.has(id, 2)
	w.view.mu.Lock()
	defer w.view.mu.Unlock()
	s := w.view.sessions[id]
	s.Instance = instance
	w.view.sessions[id] = s
}

// M7: a session that one client took over from another stays with the new one for half of its timeout, while that one
// lives.
func TestM7ASessionStaysForHalfOfItsTimeout(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		w.held(5, 70)
		w.join(1, prompt)
		m, other := w.join(2, prompt), w.join(3, prompt)
		defer w.run()()
		w.at(long / 4)
		if err := wants(m, 5, 71); err != nil {
			t.Fatalf("the first take-over: %v", err)
		}
		for _, step := range []struct {
			after    time.Duration
			at       *member
			instance uint64
			refused  bool
		}{
			{0, other, 70, true},
			{long / 4, other, 70, true},
			{long / 4, other, 71, false}, // the holder goes where it likes
			{long/2 - ms, m, 70, true},
			{long / 2, m, 70, false},
			{long / 2, m, 71, true},
			{long - ms, m, 72, true},
			{long, m, 72, false},
		} {
			w.at(long/4 + step.after)
			if err := wants(step.at, 5, step.instance); errors.Is(err, session.ErrMoved) != step.refused {
				t.Errorf("after %v instance %d was answered %v, want a refusal: %v", step.after, step.instance, err,
					step.refused)
			}
		}
		if got := w.tracker.Stats().Contested; got != 5 {
			t.Errorf("%d resumes were contested, want 5", got)
		}
	})
}

// M7: nobody waits for a holder that does not live: one whose connection has ended, whose node is lost, or whose node
// has started anew.
func TestM7AHolderThatIsGoneKeepsNothing(t *testing.T) {
	for name, goes := range map[string]func(w *world, m *member){
		"its connection has ended": func(w *world, m *member) {
			now, _ := w.view.Session(5)
			m.asks(session.Request{Release: []session.Release{{ID: 5, Attachment: now.Attachment}}})
		},
		"its node is lost":       func(w *world, m *member) { m.cut(); w.at(w.now() + ms) },
		"its node does not hear": func(w *world, m *member) { m.replies(silence); w.at(w.now() + 4*beat) },
		"its node began anew": func(w *world, m *member) {
			m.cut()
			w.at(w.now() + 100*ms)
			w.stream(session.Hello{Node: 2, Incarnation: 2, Stream: 1}, func(b *session.Heartbeat) *session.Answer {
				a := answer(b.Round)
				a.ProcessAge = ms
				return a
			})
			w.at(w.now() + beat)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, voters(1, 2, 3), func(w *world) {
				w.held(5, 70)
				w.view.mu.Lock()
				s := w.view.sessions[5]
				s.Timeout = 8 * long // longer than it takes to lose a node
				w.view.sessions[5] = s
				w.view.mu.Unlock()
				w.join(1, prompt)
				m, other := w.join(2, prompt), w.join(3, prompt)
				defer w.run()()
				w.at(long / 4)
				if err := wants(m, 5, 71); err != nil {
					t.Fatal(err)
				}
				if err := wants(other, 5, 72); !errors.Is(err, session.ErrMoved) {
					t.Fatalf("while the holder lives: %v, want %v", err, session.ErrMoved)
				}
				goes(w, m)
				if err := wants(other, 5, 72); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

// M7: the end of a former connection of the holder says nothing of its present one.
func TestM7AnOldConnectionSaysNothing(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		w.held(5, 70)
		w.join(1, prompt)
		m, other := w.join(2, prompt), w.join(3, prompt)
		defer w.run()()
		w.at(long / 4)
		before, _ := w.view.Session(5)
		for range 2 {
			if err := wants(m, 5, 71); err != nil {
				t.Fatal(err)
			}
			m.asks(session.Request{Release: []session.Release{{ID: 5, Attachment: before.Attachment}}})
			before, _ = w.view.Session(5)
		}
		if err := wants(other, 5, 72); !errors.Is(err, session.ErrMoved) {
			t.Errorf("%v, want %v", err, session.ErrMoved)
		}
	})
}

// M7: many sessions at once are each kept or moved by themselves.
func TestM7ManyAtOnce(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		w.held(5, 70)
		w.held(6, 70)
		w.join(1, prompt)
		m, other := w.join(2, prompt), w.join(3, prompt)
		defer w.run()()
		w.at(long / 4)
		if err := wants(m, 5, 71); err != nil {
			t.Fatal(err)
		}
		a, _ := w.view.Session(5)
		b, _ := w.view.Session(6)
		got := other.ask(session.Request{Resumes: resumes(a, b)})
		if len(got.Moved) != 2 || !errors.Is(got.Moved[0].Err, session.ErrMoved) || got.Moved[1].Err != nil {
			t.Errorf("%+v, want one kept and one moved", got)
		}
	})
}
