package core

import (
	"errors"
	"maps"
	"slices"

	sessions "holdfast/client/internal/core/session"
	trees "holdfast/client/internal/core/tree"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// treeWalk is the part of a walk about the tree: calls and watches that have no end yet, and what callers rely on.
type treeWalk struct {
	calls   map[*trees.Call]bool
	watches map[*trees.Watch]*heardWalk
	// shown is the highest stamp that the core has reported as seen; clock is the newest stamp of a node.
	shown, clock tree.Stamp
	// numbers are the highest numbers of writes, sent or applied, by session.
	numbers map[session.ID]uint64
	// writes, ahead and events count sent writes, writes sent before the previous answer, and events of watches: a walk
	// without them proves nothing.
	writes, ahead, events int
}

// heardWalk records a watch's events.
type heardWalk struct {
	started, over bool
	// unset: an unanswered read sets it. It cannot be dropped before.
	unset bool
}

func newTreeWalk() treeWalk {
	return treeWalk{
		calls: map[*trees.Call]bool{}, watches: map[*trees.Watch]*heardWalk{}, numbers: map[session.ID]uint64{}, clock: 1,
	}
}

// walkPaths are few: watches and events meet.
var walkPaths = []string{"/", "/a", "/a/b"}

func (w *walk) path() string { return walkPaths[w.random.IntN(len(walkPaths))] }

// treeInputs returns what an application does with the tree next: writes come in bursts.
func (w *walk) treeInputs() (all []Input) {
	h, ok := w.anySession()
	switch w.random.IntN(10) {
	case 0, 1, 2:
		for range 1 + w.random.IntN(6) {
			if ok {
				all = append(all, w.write(h))
			}
		}
	case 3, 4:
		if w.chance(2) {
			h = nil
		}
		if ok || h == nil {
			all = append(all, w.read(h))
		}
	case 5, 6:
		kinds := []tree.WatchKind{
			tree.WatchData, tree.WatchExists, tree.WatchChild, tree.WatchPersistent, tree.WatchRecursive,
		}
		watch := &trees.Watch{Spec: tree.WatchSpec{Path: w.path(), Kind: kinds[w.random.IntN(len(kinds))]}}
		w.tree.watches[watch] = &heardWalk{}
		all = append(all, AddWatch{watch})
	case 7:
		for watch, h := range w.tree.watches {
			if !h.unset && w.chance(3) {
				h.over = true
				if w.chance(2) {
					return []Input{GiveUpWatch{watch, errors.New("reader has no time")}}
				}
				return []Input{DropWatch{watch}}
			}
		}
	case 8:
		for call := range w.tree.calls {
			return []Input{GiveUpTree{call, errors.New("caller has no time")}}
		}
	}
	return all
}

func (w *walk) treeCall() *trees.Call {
	c := new(trees.Call)
	w.tree.calls[c] = true
	return c
}

func (w *walk) write(h *sessions.Session) Input {
	c := w.treeCall()
	c.Transaction.Then = []tree.Op{tree.Create{Path: w.path(), Kind: tree.Persistent}}
	return Write{c, h}
}

func (w *walk) read(h *sessions.Session) Input {
	c := w.treeCall()
	kinds := []tree.QueryKind{tree.GetEntry, tree.GetStat, tree.ListChildren, tree.Sync}
	c.Query = tree.Query{Kind: kinds[w.random.IntN(len(kinds))], Path: w.path()}
	if c.Query.Options.AllowStale = w.chance(4) && c.Query.Kind != tree.Sync; w.chance(2) && c.Query.WatchKind() != 0 {
		c.Watch = new(trees.Watch)
		w.tree.watches[c.Watch] = &heardWalk{unset: true}
	}
	return Read{c, h}
}

// stamp returns a node's stamp: mostly a new one.
func (w *walk) stamp() tree.Stamp {
	if !w.kind && w.chance(8) {
		return 1 + tree.Stamp(w.random.Uint64N(uint64(w.tree.clock)))
	}
	w.tree.clock += tree.Stamp(w.random.IntN(3))
	return w.tree.clock
}

// ofTree reports whether a message is about the tree.
func ofTree(m *holdfastv1.ClientMessage) bool {
	return m.GetWrite() != nil || m.GetRead() != nil || m.GetAddWatches() != nil || m.GetRemoveWatches() != nil
}

// treeAnswer answers a message about the tree.
func (w *walk) treeAnswer(m *holdfastv1.ClientMessage) *holdfastv1.ServerMessage {
	w.t.Helper()
	seq := seqOf(m)
	switch r := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Write:
		result := tree.Result{Stamp: w.stamp(), Void: r.Write.GetVoid() && (w.kind || !w.chance(4))}
		result.Outcome.Ops = make([]tree.OpOutcome, 1)
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Written{
			Written: wire.WrittenProto(seq, result),
		}}
	case *holdfastv1.ClientMessage_Read:
		q, err := wire.QueryFrom(r.Read)
		if err != nil {
			w.t.Fatalf("sends a read that no node takes: %v", err)
		}
		found := tree.Answer{Kind: q.Kind, Stamp: w.stamp(), Exists: w.chance(2)}
		if !w.kind && w.chance(20) {
			found.Kind = tree.CheckFence
		}
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Read{Read: wire.TreeAnswerProto(seq, found)}}
	case *holdfastv1.ClientMessage_AddWatches:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_WatchesAdded{
			WatchesAdded: &holdfastv1.WatchesAdded{Seq: seq, Stamp: uint64(w.stamp())},
		}}
	case *holdfastv1.ClientMessage_RemoveWatches:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_WatchesRemoved{
			WatchesRemoved: &holdfastv1.WatchesRemoved{Seq: seq, Removed: 1},
		}}
	default:
		w.t.Fatalf("sends %v, which the walk does not know", m)
		return nil
	}
}

// treeRefusal returns why a node refuses a request of the tree.
func (w *walk) treeRefusal() error {
	all := []error{
		&tree.GapError{Expected: 1 + w.random.Uint64N(8)}, &tree.WindowError{Limit: "256"}, session.ErrOutcomeUnknown,
		session.ErrNoInstance, session.ErrLocalSession, &tree.RefusedError{Code: tree.NoNode},
		&tree.WriteError{Refused: &tree.RefusedError{Code: tree.NodeExists}, Stamp: w.stamp()},
		&session.LimitError{Name: "unanswered_writes", RetryAfter: session.BusyRetryAfter},
		&session.LimitError{Name: "watch_bytes_per_connection"},
	}
	return all[w.random.IntN(len(all))]
}

// treeGossip returns a node's message for watches.
func (w *walk) treeGossip() *holdfastv1.ServerMessage {
	switch w.random.IntN(4) {
	case 0:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Lost{
			Lost: &holdfastv1.Lost{Stamp: uint64(w.stamp())},
		}}
	case 1:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Progress{
			Progress: &holdfastv1.Progress{Stamp: uint64(w.stamp())},
		}}
	default:
		kinds := []tree.EventKind{tree.EntryCreated, tree.EntryDeleted, tree.DataChanged, tree.ChildrenChanged}
		events := make([]tree.Event, 1+w.random.IntN(3))
		for i := range events {
			events[i] = tree.Event{Stamp: w.stamp(), Kind: kinds[w.random.IntN(len(kinds))], Path: w.path()}
		}
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Events{Events: wire.EventsProto(events)}}
	}
}

// wrote checks a sent write (X1 numbered writes): its number is the next or an earlier one, its acknowledgement is
// below it, and no more than a window of numbers is open.
func (w *walk) wrote(m *holdfastv1.Write) {
	w.t.Helper()
	if m == nil {
		return
	}
	t, id := &w.tree, session.ID(m.GetSessionId())
	if t.writes++; m.GetNumber() > t.numbers[id] && m.GetAcked()+1 < m.GetNumber() {
		t.ahead++
	}
	if n := m.GetNumber(); n == 0 || n > t.numbers[id]+1 || m.GetAcked() >= n || n > m.GetAcked()+tree.MaxUnanswered {
		w.t.Fatalf("session %d: sends write %d with acked %d; the highest number was %d", uint64(id), n, m.GetAcked(),
			t.numbers[id])
	}
	t.numbers[id] = max(t.numbers[id], m.GetNumber())
}

// took records a resume's answer about a session's writes (X4 a new instance starts anew).
func (w *walk) took(m *holdfastv1.Resumed) *holdfastv1.Resumed {
	id := session.ID(m.GetSession().GetId())
	m.Applied = w.tree.numbers[id]
	if !w.kind && w.chance(8) {
		m.Applied = w.random.Uint64N(m.Applied + 3) // another process has written, or the cluster has lost state
	}
	m.Floor = w.random.Uint64N(m.Applied + 1)
	w.tree.numbers[id] = max(w.tree.numbers[id], m.GetApplied())
	return m
}

// treeTold checks the results for callers and watches: each call is answered once, a watch starts before its events,
// and receives nothing after its end.
func (w *walk) treeTold(in []Input, e *Effects) {
	w.t.Helper()
	t := &w.tree
	stamp := e.Conns.Known.Stamp
	if stamp < t.shown {
		w.t.Fatalf("%v: the stamp seen falls from %v to %v", in, t.shown, stamp)
	}
	t.shown = stamp
	w.at.Known.Stamp = stamp
	for _, heard := range e.Tree.Deliveries {
		h := t.watches[heard.Watch]
		switch {
		case h == nil:
			w.t.Fatalf("%v: a watch that has ended hears %+v", in, heard)
		case heard.Err != nil:
			delete(t.watches, heard.Watch)
		case heard.Started && h.started:
			w.t.Fatalf("%v: a watch begins twice", in)
		case heard.Started:
			h.started, h.unset = true, false
		case !h.started && !heard.Lost && !heard.Watch.Spec.Kind.OneShot():
			w.t.Fatalf("%v: a watch hears %+v before it has begun", in, heard)
		case heard.Watch.Spec.Kind.OneShot() && heard.Lost:
			w.t.Fatalf("%v: a one-shot misses events", in)
		case heard.Watch.Spec.Kind.OneShot():
			delete(t.watches, heard.Watch)
			t.events++
		default:
			t.events++
		}
	}
	for _, d := range e.Tree.Done {
		if !t.calls[d.Call] {
			w.t.Fatalf("%v: answered again: %+v", in, d)
		}
		delete(t.calls, d.Call)
		if one := d.Call.Watch; one != nil && d.Err != nil {
			delete(t.watches, one) // the read has not set it
		}
	}
	maps.DeleteFunc(t.watches, func(_ *trees.Watch, h *heardWalk) bool { return h.over })
}

// treeLeft returns how many calls and watches have no end after that of the client.
func (w *walk) treeLeft() int {
	set := slices.DeleteFunc(slices.Collect(maps.Values(w.tree.watches)), func(h *heardWalk) bool { return h.over })
	return len(w.tree.calls) + len(set)
}
