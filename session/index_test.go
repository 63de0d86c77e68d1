package session_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"holdfast/session"
)

// TestQueueFinds compares Find and FindAll with a map while sessions with realistic ids come and go.
func TestQueueFinds(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		q := newQueue(t, width)
		here := make(map[session.ID]bool)
		draw := func() session.ID {
			return session.ID(1+random.Uint64N(3))<<56 | session.ID(1<<34+
				random.Uint64N(200))<<16 | session.ID(random.Uint64N(4))
		}
		for range 4000 {
			id := draw()
			if here[id] {
				if !q.Remove(id) {
					t.Fatalf("seed %d: Remove(%v) did not find it", seed, id)
				}
				delete(here, id)
				continue
			}
			if random.IntN(3) > 0 {
				if _, err := q.Add(id, 0, time.Second, time.Duration(id)); err != nil {
					t.Fatal(err)
				}
				here[id] = true
			}
		}
		touches := make([]session.Touch, 1000)
		for i := range touches {
			touches[i].ID = draw()
		}
		items := make([]*session.Item[time.Duration], len(touches))
		q.FindAll(touches, items)
		for i, touch := range touches {
			it := q.Find(touch.ID)
			if (it != nil) != here[touch.ID] ||
				it != nil && (it.ID() != touch.ID || it.Value != time.Duration(touch.ID)) {
				t.Fatalf("seed %d: Find(%v) = %+v, here %v", seed, touch.ID, it, here[touch.ID])
			}
			if items[i] != it {
				t.Fatalf("seed %d: FindAll gives %+v for %v, Find %+v", seed, items[i], touch.ID, it)
			}
		}
		if q.Len() != len(here) {
			t.Fatalf("seed %d: Len %d, want %d", seed, q.Len(), len(here))
		}
	}
}
