package namespace_test

import (
	"testing"
	"time"

	"holdfast/learner/lane"
	"holdfast/session"
	"holdfast/tree"
)

// G8: what front ends hold counts for the node, whichever connection it comes through. It is crowded when half of its
// room is taken; then requests whose turn has come find room all the same. What a connection holds ends with it.
func TestG8RequestsInFrontOfTheLanes(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		const each, many = 4 << 20, lane.MaxNodeQueued / (4 << 20)
		all := make([]*client, many)
		crowded := 0
		for i := range all {
			all[i] = w.connects()
			if all[i].conn.Hold(each) {
				crowded++
			}
		}
		if want := many/2 + 1; crowded != want {
			t.Errorf("the node was crowded for %d of %d connections, want %d", crowded, many, want)
		}
		for _, c := range all[many/2:] {
			c.conn.Hold(-each)
		}
		asks := w.connects()
		if !asks.conn.Hold(0) {
			t.Error("the node is not crowded with half of its room taken")
		}
		if err := asks.reads(tree.Query{Kind: tree.GetStat, Path: "/"}); err != nil {
			t.Fatal(err)
		}
		if told, ok := asks.conn.Next(time.Now()); !ok || told.Answer == nil || told.Answer.Err != nil {
			t.Errorf("a request whose turn has come was told %+v", told)
		}
		for _, c := range all[:many/2] {
			c.conn.Close()
			c.conn.Close()
			c.conn.Hold(-each)
		}
		room := session.TreeRead{Key: readKeys, Query: tree.Query{Kind: tree.GetStat, Path: "/"}, Bytes: lane.MaxNodeQueued}
		if err := asks.conn.Read(room); err != nil || asks.conn.Hold(0) {
			t.Fatalf("a request for all of the room: %v", err)
		}
		if told, ok := asks.conn.Next(time.Now()); !ok || told.Answer == nil || told.Answer.Err != nil {
			t.Errorf("the room has not come back: %+v", told)
		}
	})
}
