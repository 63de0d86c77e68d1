package session_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/session"
)

// The parts together have every session once, whatever comes and goes between two of them.
func TestQueueParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, err := session.NewExpiryQueue[time.Duration](width)
		if err != nil {
			t.Fatal(err)
		}
		all := rapid.IntRange(0, 1500).Draw(t, "sessions")
		stays := make(map[session.ID]bool)
		for id := range session.ID(all) {
			it, err := q.Add(id+1, 0, time.Second, 0)
			if err != nil {
				t.Fatal(err)
			}
			if id%3 == 0 {
				q.Mark(it)
			}
			stays[id+1] = true
		}
		next := session.ID(all)
		got := make(map[session.ID]int)
		for part, more := 0, true; more; part++ {
			held := 0
			more = q.Some(part, func(it *session.Item[time.Duration]) {
				got[it.ID()]++
				held++
			})
			if held > 256 {
				t.Fatalf("part %d has %d sessions", part, held)
			}
			for range rapid.IntRange(0, 3).Draw(t, "ends") {
				id := session.ID(rapid.IntRange(1, max(all, 1)).Draw(t, "ended"))
				q.Remove(id)
				delete(stays, id)
			}
			if next++; rapid.Bool().Draw(t, "opens") {
				if _, err := q.Add(next, 0, time.Second, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		for id := range stays {
			if got[id] != 1 {
				t.Errorf("session %v was seen %d times", id, got[id])
			}
		}
	})
}
