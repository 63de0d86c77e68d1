package core

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"holdfast/client/internal/core/conn"
	trees "holdfast/client/internal/core/tree"
	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// wayBack is a client with a watch of everything below /s, whose node is played by the test.
type wayBack struct {
	t     *testing.T
	core  *Core
	at    Moment
	conn  *conn.Conn
	seq   uint64     // of the pending question for watches
	since tree.Stamp // in that question
	heard []string
	// cluster is the node's, and reason that of the newest LOST.
	cluster uint64
	reason  error
	// removed are the watches that the node is asked to remove.
	removed []tree.WatchSpec
}

// newWayBack returns a client whose watch is in place.
func newWayBack(t *testing.T) *wayBack {
	t.Helper()
	w := &wayBack{t: t, at: Moment{Now: time.Now()}, cluster: 1}
	w.core = New(Config{
		Instance: 77, Servers: []string{"n1:1"}, ConnectTimeout: 2 * time.Second, HedgeDelay: 250 * time.Millisecond,
		Jitter: route.NewJitter(rand.NewPCG(1, 2), testMinBackoff, 2*time.Second),
	})
	w.turn(AddWatch{&trees.Watch{Spec: tree.WatchSpec{Path: "/s", Kind: tree.WatchRecursive}}})
	w.connects(0)
	w.added(tree.StampAt(5, 1))
	w.want("started 5.1")
	return w
}

func (w *wayBack) turn(in ...Input) {
	e := w.core.Turn(w.at, in...)
	w.at.Known = e.Conns.Known
	for _, h := range e.Tree.Deliveries {
		switch {
		case h.Started:
			w.heard = append(w.heard, fmt.Sprintf("started %v", h.Event.Stamp))
		case h.Lost:
			w.heard, w.reason = append(w.heard, fmt.Sprintf("lost %v", h.Event.Stamp)), h.Reason
		default:
			w.heard = append(w.heard, fmt.Sprintf("%v %s", h.Event.Stamp, h.Event.Path))
		}
	}
	for _, a := range e.Conns.Actions {
		if a.Do == conn.Dial {
			w.conn = a.Conn
		}
		if q := a.Message.GetAddWatches(); q != nil {
			w.seq, w.since = q.GetSeq(), tree.Stamp(q.GetSince())
		}
		if m := a.Message.GetRemoveWatches(); m != nil {
			removed, err := wire.RemovalFrom(m)
			if err != nil {
				w.t.Error(err)
			}
			w.removed = append(w.removed, removed...)
		}
	}
}

// connects lets the client connect, and wants it to come back from a stamp.
func (w *wayBack) connects(since tree.Stamp) {
	w.t.Helper()
	for w.conn == nil {
		w.at.Now = w.at.Now.Add(time.Second)
		w.turn(nil)
	}
	w.turn(Up{w.conn})
	w.says(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: &holdfastv1.Touched{Seq: 1}}})
	if w.seq == 0 || w.since != since {
		w.t.Fatalf("the client asks with question %d for what came since %v, want %v", w.seq, w.since, since)
	}
}

func (w *wayBack) says(m *holdfastv1.ServerMessage) {
	m.State = wire.StateProto(session.NodeState{
		Node: 1, Mode: session.ModeReadWrite, Index: 5, Cluster: w.cluster,
	})
	w.turn(Received{w.conn, m})
}

// added answers the question.
func (w *wayBack) added(stamp tree.Stamp) {
	seq := w.seq
	w.seq = 0
	w.says(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_WatchesAdded{
		WatchesAdded: &holdfastv1.WatchesAdded{Seq: seq, Stamp: uint64(stamp)},
	}})
}

func (w *wayBack) event(stamp tree.Stamp, kind tree.EventKind, path string) {
	w.says(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Events{
		Events: wire.EventsProto([]tree.Event{{Stamp: stamp, Kind: kind, Path: path}}),
	}})
}

func (w *wayBack) lost(stamp tree.Stamp) {
	w.says(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Lost{
		Lost: &holdfastv1.Lost{Stamp: uint64(stamp)},
	}})
}

// breaks ends the connection, and wants the client to come back from a stamp.
func (w *wayBack) breaks(since tree.Stamp) {
	w.t.Helper()
	on := w.conn
	w.conn = nil
	w.turn(Down{on, errors.New("connection reset")})
	w.connects(since)
}

// want compares the watch's events since the last call.
func (w *wayBack) want(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.heard, want) {
		w.t.Errorf("heard %q, want %q", w.heard, want)
	}
	w.heard = nil
}

// I13: every missed change is covered by a LOST, or delivered. A covered change is not delivered after the LOST, nor
// when the client comes back again from before it.
func TestI13NothingComesBehindItsLost(t *testing.T) {
	w := newWayBack(t)
	w.breaks(tree.StampAt(5, 1))
	for range 2 {
		w.event(tree.StampAt(6, 1), tree.EntryCreated, "/s/a")
		w.lost(tree.StampAt(8, 3))
		w.event(tree.StampAt(9, 1), tree.EntryCreated, "/s/b")
		w.want()
		w.breaks(tree.StampAt(5, 1)) // the question is not answered: nothing counts yet
	}
	w.event(tree.StampAt(6, 1), tree.EntryCreated, "/s/a")
	w.event(tree.StampAt(9, 1), tree.EntryCreated, "/s/b")
	w.added(tree.StampAt(9, 1))
	w.want("lost 8.3", "9.1 /s/b")
	w.event(tree.StampAt(10, 1), tree.EntryDeleted, "/s/a")
	w.want("10.1 /s/a")
}

// I11: the event of a one-shot may come between two LOSTs, which cover other events of its stamp (V6 LOST). A client
// that comes back between them receives each event once.
func TestI11OneOfSeveralEventsOfAStampArrived(t *testing.T) {
	w := newWayBack(t)
	at := tree.StampAt(7, 2)
	w.lost(at - 1)
	w.event(at, tree.DataChanged, "/s/c")
	w.breaks(at - 1)
	for _, path := range []string{"/s/a", "/s/c", "/s/d"} {
		w.event(at, tree.DataChanged, path)
	}
	w.added(tree.StampAt(8, 1))
	w.want("lost 7.1", "7.2 /s/c", "7.2 /s/a", "7.2 /s/d")
}

// I11: a restored one-shot receives a derived deletion, with the stamp of no change (V4 resumed watches). Lasting
// watches do not receive it again.
func TestI11DerivedEventsAreForOneShots(t *testing.T) {
	w := newWayBack(t)
	w.turn(AddWatch{&trees.Watch{Spec: tree.WatchSpec{Path: "/s/a", Kind: tree.WatchData}}})
	w.added(tree.StampAt(5, 1))
	w.event(tree.StampAt(7, tree.MaxPosition), tree.EntryDeleted, "/s/a")
	w.want("started 5.1", "7.65535 /s/a")
}

// V2, G2: the removal of a one-shot that a read in flight sets again would remove that watch as well, so the removal
// waits until the read is answered.
func TestARemovalLeavesTheWatchOfAReadInFlight(t *testing.T) {
	spec := tree.WatchSpec{Path: "/s/a", Kind: tree.WatchData}
	for _, reading := range []string{"", "/s/a", "/s/b"} {
		w := newWayBack(t)
		one := &trees.Watch{Spec: spec}
		w.turn(AddWatch{one})
		w.added(tree.StampAt(5, 1))
		if reading != "" {
			w.turn(Read{Call: &trees.Call{Query: tree.Query{Kind: tree.GetEntry, Path: reading}, Watch: new(trees.Watch)}})
		}
		w.turn(DropWatch{one})
		if removed := len(w.removed) > 0; removed != (reading != spec.Path) {
			t.Errorf("while %q is read, the client removes %v", reading, w.removed)
		}
	}
}

// A new cluster starts while a client watches. Its watch asks for nothing since a stamp of the former cluster, and
// receives a LOST once it is in place, whatever the stamps are; then it receives every event.
func TestAWatchOfAnotherClusterRestarts(t *testing.T) {
	for _, anew := range []tree.Stamp{tree.StampAt(2, 1), tree.StampAt(900, 1)} {
		t.Run(fmt.Sprint("at ", anew), func(t *testing.T) {
			w := newWayBack(t)
			w.event(tree.StampAt(40, 1), tree.EntryCreated, "/s/a")
			w.want("40.1 /s/a")
			w.cluster = 2
			w.breaks(0)
			w.want()
			w.added(anew)
			w.want(fmt.Sprintf("lost %v", anew))
			if !errors.Is(w.reason, session.ErrClusterChanged) {
				t.Errorf("events are lost because of %v", w.reason)
			}
			next := anew + 1
			w.event(next, tree.EntryCreated, "/s/b")
			w.want(fmt.Sprintf("%v /s/b", next))
			if w.at.Known.Cluster != 2 || w.at.Known.Stamp != next || w.at.Known.Seen != 5 {
				t.Errorf("the client has seen index %d and stamp %v of cluster %d", w.at.Known.Seen, w.at.Known.Stamp, w.at.Known.Cluster)
			}
		})
	}
}
