package dispatch_test

import (
	"fmt"
	"testing"

	"holdfast/learner/tree/dispatch"
	"holdfast/learner/tree/pending"
	"holdfast/tree"
)

// TestARepeatIsAnswered: the queue of writes has heard of the result of a number, and sends nothing more for it. A void
// or a repeat that comes later is answered from what the state keeps, in its turn (I18 an answer).
func TestARepeatIsAnswered(t *testing.T) {
	w, _, _ := quietWorld(t, dispatch.DefaultLimits())
	w.shared.Writes = noWrites{}
	l := dispatch.New(w.shared, dispatch.DefaultLimits(), func() {})
	c := l.Open(root, func() {})
	l.Attach(c, 1, 1, 1)
	w.index++
	at := tree.StampAt(w.index, 1)
	w.kept[1] = writer{attachment: 1, results: [][]byte{result(at)}}
	w.hub.Applied(w.published(), nil, []pending.Outcome{
		{Session: 1, Attachment: 1, Number: 1, At: at, Result: result(at)},
	})
	l.Pass()
	if err := l.Write(c, dispatch.Write{Key: 1, Write: pending.Write{Session: 1, Attachment: 1, Number: 1}}); err != nil {
		t.Fatal(err)
	}
	inOrder := dispatch.Read{Key: 2, Attachment: 1, Query: tree.Query{Kind: tree.GetStat, Path: "/", Session: 1}}
	if _, err := l.Read(c, inOrder); err != nil {
		t.Fatal(err)
	}
	for _, j := range l.Work() {
		j.Do()
	}
	w.want(l, c, "answer 1")
	w.want(l, c, "answer 2")
}

// TestARepeatWaitsForItsTurn: a repeat whose result is kept is answered behind the writes that came before it (G3 order
// in a session).
func TestARepeatWaitsForItsTurn(t *testing.T) {
	w, _, _ := quietWorld(t, dispatch.DefaultLimits())
	w.shared.Writes = noWrites{}
	l := dispatch.New(w.shared, dispatch.DefaultLimits(), func() {})
	c := l.Open(root, func() {})
	l.Attach(c, 1, 1, 1)
	apply := func(number uint64) {
		w.index++
		at := tree.StampAt(w.index, 1)
		w.kept[1] = writer{attachment: 1, results: append(w.kept[1].results, result(at))}
		w.hub.Applied(w.published(), nil, []pending.Outcome{
			{Session: 1, Attachment: 1, Number: number, At: at, Result: result(at)},
		})
		l.Pass()
	}
	apply(1)
	for key, number := range []uint64{2, 1} {
		write := dispatch.Write{Key: uint64(key), Write: pending.Write{Session: 1, Attachment: 1, Number: number}}
		if err := l.Write(c, write); err != nil {
			t.Fatal(err)
		}
	}
	w.want(l, c, "nothing")
	apply(2)
	w.want(l, c, "answer 0")
	w.want(l, c, "answer 1")
}

// TestGuestsDisturbNobody: connections that make single requests under an attachment take nothing from the one that
// serves it, and all get the result of a number that they have asked for.
func TestGuestsDisturbNobody(t *testing.T) {
	w, _, _ := quietWorld(t, dispatch.DefaultLimits())
	w.shared.Writes = noWrites{}
	l := dispatch.New(w.shared, dispatch.DefaultLimits(), func() {})
	c, guest, other := l.Open(root, func() {}), l.Open(root, func() {}), l.Open(root, func() {})
	l.Attach(c, 1, 1, 1)
	l.AttachGuest(guest, 1, 1, 1)
	l.AttachGuest(other, 1, 1, 1)
	for _, one := range []*dispatch.Conn{c, guest, other} {
		write := dispatch.Write{Key: 5, Write: pending.Write{Session: 1, Attachment: 1, Number: 1}}
		if err := l.Write(one, write); err != nil {
			t.Fatal(err)
		}
	}
	passed := false
	l.Barrier(1, 1, func() { passed = true })
	l.Close(other)
	if passed || l.Idle(1, 1) {
		t.Error("G7: a close may go before the write in front of it")
	}
	w.index++
	at := tree.StampAt(w.index, 1)
	w.kept[1] = writer{attachment: 1, results: [][]byte{result(at)}}
	w.hub.Applied(w.published(), nil, []pending.Outcome{
		{Session: 1, Attachment: 1, Number: 1, At: at, Result: result(at)},
	})
	l.Pass()
	w.want(l, c, "answer 5")
	w.want(l, guest, "answer 5")
	if !passed || !l.Idle(1, 1) {
		t.Error("G7: a close waits though the write has its answer")
	}
	l.Close(guest)
	if !w.hub.Serves(1, 1) {
		t.Error("a guest that leaves ends the service of the attachment")
	}
	l.Close(c)
	if w.hub.Serves(1, 1) {
		t.Error("nobody serves the attachment, and results are kept for it")
	}
}

// TestOneShotEventsCount: events that stay (V6 LOST) count like answers until they are sent. Without, a client that
// reads nothing makes the node hold any number of them.
func TestOneShotEventsCount(t *testing.T) {
	limits := dispatch.DefaultLimits()
	limits.Unsent = 1000
	w, l, c := quietWorld(t, limits)
	w.set("/a", nil)
	l.Pass()
	for i := range 100 {
		var specs []tree.WatchSpec
		for n := range 10 {
			specs = append(specs, tree.WatchSpec{Path: fmt.Sprintf("/gone-%d-%d", i, n), Kind: tree.WatchData})
		}
		one := dispatch.Addition{Addition: tree.Addition{Watches: specs, Since: tree.StampAt(1, 1)}}
		if err := l.AddWatches(c, one); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.Unsent(); n < limits.Unsent || n > 2*limits.Unsent {
		t.Errorf("%d bytes are unsent, want about %d", n, limits.Unsent)
	}
	told := 0
	for {
		if _, ok := c.Next(w.now); ok {
			told++
			continue
		}
		if !l.Pass() && c.Unsent() == 0 {
			break
		}
	}
	if told != 1000+100 {
		t.Errorf("%d events and answers are told, want 1,100", told)
	}
	if n := w.shared.Unsent.Used(); n != 0 {
		t.Errorf("%d bytes count as unsent", n)
	}
}

// TestRemovedWatches: none of the events of removed watches follows the answer, and those that wait to be added, for a
// node that lags behind the client, are not added: nobody would remove them. Others of the same requests are.
func TestRemovedWatches(t *testing.T) {
	w, l, c := quietWorld(t, dispatch.DefaultLimits())
	w.set("/a", nil)
	l.Pass()
	ahead := tree.StampAt(w.index+1, 1)
	specs := func(kind tree.WatchKind, paths ...string) (all []tree.WatchSpec) {
		for _, path := range paths {
			all = append(all, tree.WatchSpec{Path: path, Kind: kind})
		}
		return all
	}
	for key, a := range []tree.Addition{
		{Watches: specs(tree.WatchPersistent, "/a", "/b")},
		{Watches: specs(tree.WatchPersistent, "/c", "/d"), Since: ahead},
		{Watches: specs(tree.WatchRecursive, "/c"), Options: tree.ReadOptions{Seen: ahead}},
		{Watches: specs(tree.WatchPersistent, "/e"), Since: ahead},
	} {
		if err := l.AddWatches(c, dispatch.Addition{Key: uint64(key), Addition: a}); err != nil {
			t.Fatal(err)
		}
	}
	w.want(l, c, "answer 0")
	for key, gone := range [][]tree.WatchSpec{
		specs(tree.WatchPersistent, "/a", "/c"), append(specs(tree.WatchData, "/d"), specs(0, "/e")...),
	} {
		if err := c.RemoveWatches(10+uint64(key), gone); err != nil {
			t.Fatal(err)
		}
		w.want(l, c, fmt.Sprint("answer ", 10+key))
	}
	w.set("/z", nil)
	l.Pass()
	for range 3 { // the answers to the additions, in no order
		if s, ok := c.Next(w.now); !ok || s.Value.Answer == nil || s.Value.Answer.Err != nil {
			t.Fatalf("%+v, %v", s, ok)
		}
	}
	for _, path := range []string{"/a", "/b", "/c", "/d", "/e"} {
		w.set(path, nil)
	}
	l.Pass()
	w.want(l, c, "created /b")
	w.want(l, c, "created /c")
	w.want(l, c, "created /d")
	w.want(l, c, "nothing")
	if c.Watches() != 3 {
		t.Errorf("%d watches, want 3", c.Watches())
	}
}
