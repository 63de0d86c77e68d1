package leader_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
)

// The matching sessions with the least time left are listed in order: by timeout, by an operator's extension, by owner
// and by label.
func TestSoonest(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		l := w.freezing(time.Hour)
		labels := session.Labels{{Key: "service", Value: "web"}}
		const all = 2000
		want := make([]session.ID, 0, all) // the session with the shortest timeout first
		for n := range session.ID(all) {
			id := (n%7)<<40 | n + 1 // in all shards
			w.has(id, session.Node(1+n%2))
			w.view.mu.Lock()
			s := w.view.sessions[id]
			if s.Timeout = 30*time.Second + time.Duration(n)*ms; n%3 == 0 {
				s.Labels = labels
			}
			w.view.sessions[id] = s
			w.view.mu.Unlock()
			want = append(want, id)
		}
		m := w.join(1, prompt)
		w.join(2, prompt)
		l.kept[want[0]] = time.Hour + 20*time.Minute // an operator keeps the first
		defer w.run()()
		w.at(time.Second)
		matches := func(f func(n int) bool) (ids []session.ID) {
			for n, id := range want[1:] {
				if f(n + 1) {
					ids = append(ids, id)
				}
			}
			return ids
		}
		for i, c := range []struct {
			size   int
			filter session.Filter
			want   []session.ID
		}{
			{1, session.Filter{}, want[1:]},
			{10, session.Filter{}, want[1:]},
			{session.MaxPage, session.Filter{}, want[1:]},
			{10, session.Filter{Owner: 2}, matches(func(n int) bool { return n%2 == 1 })},
			{10, session.Filter{Labels: labels}, matches(func(n int) bool { return n%3 == 0 })},
			{10, session.Filter{MinRemaining: 10 * time.Minute}, want[:1]},
			{10, session.Filter{MaxRemaining: time.Second}, nil},
			{10, session.Filter{OpenedAfter: time.Now()}, nil},
		} {
			seq := uint64(i) + 1
			m.asks(session.Request{Seq: seq, Soonest: &session.SoonestRequest{Size: c.size, Filter: c.filter}})
			w.at(w.now() + 10*ms)
			r := m.replied(seq)
			if r == nil || r.Err != nil || r.Term != term || len(r.Remaining) != len(r.Soonest) ||
				!slices.IsSorted(r.Remaining) {
				t.Fatalf("%d of %+v: reply %+v", c.size, c.filter, r)
			}
			if first := c.want[:min(len(c.want), c.size)]; !slices.Equal(r.Soonest, first) {
				t.Errorf("%d of %+v: %v, want %v", c.size, c.filter, r.Soonest, first)
			}
			for i, left := range r.Remaining {
				if c.filter.MinRemaining == 0 && (left < 28*time.Second || left > 32*time.Second) {
					t.Errorf("%d of %+v: number %d has %v left, want 28 to 32 s", c.size, c.filter, i, left)
				}
			}
		}
		for seq, size := range []int{0, session.MaxPage + 1} {
			m.asks(session.Request{Seq: uint64(seq) + 100, Soonest: &session.SoonestRequest{Size: size}})
			w.at(w.now() + 10*ms)
			var field *session.FieldError
			if r := m.replied(uint64(seq) + 100); r == nil || !errors.As(r.Err, &field) || field.Field != "size" {
				t.Errorf("a page of %d: %+v", size, r)
			}
		}
	})
}

// Before all sessions are filed, the first to expire are not known.
func TestSoonestWhileFilling(t *testing.T) {
	filling(t, []session.ID{5, 6}, func(w *world, m *member, fill func()) {
		m.says(answer(1))
		ask := func(seq uint64) *session.Reply {
			m.asks(session.Request{Seq: seq, Soonest: &session.SoonestRequest{Size: 10}})
			w.at(w.now() + 10*ms)
			m.says(answer(m.last().Round))
			synctest.Wait()
			return m.replied(seq)
		}
		if r := ask(1); r == nil || !errors.Is(r.Err, session.ErrNoLeader) {
			t.Errorf("while filling: %+v, want a refusal", r)
		}
		fill()
		if r := ask(2); r == nil || r.Err != nil || len(r.Soonest) != 2 {
			t.Errorf("after filling: %+v, want both sessions", r)
		}
	})
}
