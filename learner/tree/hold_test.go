package tree_test

import (
	"testing"
	"time"

	"holdfast/learner/tree/dispatch"
	"holdfast/session"
	"holdfast/tree"
)

// G8: bytes held by front ends count for the node, whichever connection of a principal they come through. The principal
// is crowded when it holds half of its part; then requests whose turn has come still fit, and nobody else is crowded.
// The bytes held by a connection end with it.
func TestG8RequestsInFrontOfTheDispatchers(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		// With one more than half the client has half of its three quarters.
		const each, many, half = 4 << 20, dispatch.MaxNodeQueued / (4 << 20), 23
		all := make([]*client, many)
		crowded := 0
		for i := range all {
			all[i] = w.connects()
			if all[i].conn.Hold(each) {
				crowded++
			}
		}
		if want := many - half; crowded != want {
			t.Errorf("%d of %d connections were crowded, want %d", crowded, many, want)
		}
		for _, c := range all[half+1:] {
			c.conn.Hold(-each)
		}
		if other := w.connectsFrom(tree.Principal{Scheme: tree.IP, ID: "10.0.0.9"}); other.conn.Hold(each) {
			t.Error("a connection of another principal is crowded")
		}
		asks := w.connects()
		if !asks.conn.Hold(0) {
			t.Error("a principal is not crowded with half of its room taken")
		}
		if err := asks.reads(tree.Query{Kind: tree.GetStat, Path: "/"}); err != nil {
			t.Fatal(err)
		}
		if told, ok := asks.conn.Next(time.Now()); !ok || told.Answer == nil || told.Answer.Err != nil {
			t.Errorf("a request whose turn has come was told %+v", told)
		}
		for _, c := range all[:half+1] {
			c.conn.Close()
			c.conn.Close()
			c.conn.Hold(-each)
		}
		room := session.TreeRead{
			Key: readKeys, Query: tree.Query{Kind: tree.GetStat, Path: "/"}, Bytes: dispatch.MaxNodeQueued / 2,
		}
		if err := asks.conn.Read(room); err != nil || asks.conn.Hold(0) {
			t.Fatalf("a request for half of the room: %v", err)
		}
		if told, ok := asks.conn.Next(time.Now()); !ok || told.Answer == nil || told.Answer.Err != nil {
			t.Errorf("the room has not come back: %+v", told)
		}
	})
}
