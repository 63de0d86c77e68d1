package sim

import (
	"context"
	"fmt"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1" //nolint:depguard // a client without the SDK: it judges no answer itself
	"holdfast/test/sim/check"
	"holdfast/test/sim/history"
	"holdfast/transport/wire" //nolint:depguard // reads what a node tells, and nothing more
	"holdfast/tree"
)

// streamer watches the tree without the SDK, at one node after the other: it comes back from what it was told. Each of
// its streams is a watch of its own, and the node says up to where it has told everything (V5).
type streamer struct {
	*stranger
	trees []holdfastv1.TreeServiceClient
	// told is the stamp to come back from.
	told tree.Stamp
	// names numbers the streams.
	names int
	// last is closed when the last fault is over, and done when the streamer has been told everything.
	last, done chan struct{}
}

func (w *world) streamer(name string) *streamer {
	s, err := w.stranger(name)
	if err != nil {
		w.t.Fatal(err)
	}
	x := &streamer{stranger: s, last: make(chan struct{}), done: make(chan struct{})}
	for _, cc := range s.conns {
		x.trees = append(x.trees, holdfastv1.NewTreeServiceClient(cc))
	}
	return x
}

// work watches on one stream after the other. After the last fault one of them tells everything.
func (x *streamer) work(ctx context.Context) {
	defer close(x.done)
	for ctx.Err() == nil {
		select {
		case <-x.last:
			x.finish(ctx)
			return
		default:
		}
		lasts := time.Second + time.Duration(x.rand.Int64N(int64(8*time.Second)))
		x.stream(ctx, lasts, ^tree.Stamp(0), x.rand.IntN(3) == 0)
		sleep(ctx, time.Duration(x.rand.Int64N(int64(2*time.Second))))
	}
}

// finish watches until everything was told that a node has applied by now.
func (x *streamer) finish(ctx context.Context) {
	all := tree.StampAt(x.w.plot.applied(), tree.MaxPosition)
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	for x.told < all && ctx.Err() == nil {
		x.stream(ctx, settle, all, false)
		sleep(ctx, 100*time.Millisecond)
	}
	if x.told < all {
		x.w.failf("%s: told everything up to %v, and not up to %v, %v after the last fault", x.name, x.told, all, settle)
	}
}

// stream watches at a node until it was told everything up to a stamp, for a while, or until the node ends the stream.
func (x *streamer) stream(ctx context.Context, lasts time.Duration, upTo tree.Stamp, stale bool) {
	ctx, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	x.names++
	specs := []tree.WatchSpec{{Path: plotPath, Kind: tree.WatchRecursive}}
	if x.rand.IntN(4) == 0 && upTo == ^tree.Stamp(0) {
		specs[0].Path = check.VeiledPath
	} else if all := beds(); x.rand.IntN(2) == 0 {
		specs = append(specs, tree.WatchSpec{Path: all[x.rand.IntN(len(all))], Kind: tree.WatchPersistent})
	}
	asked := wire.AdditionProto(0, tree.Addition{Watches: specs})
	if x.rand.IntN(5) == 0 {
		x.told = 0 // begins anew
	}
	stream, err := x.trees[x.rand.IntN(len(x.trees))].Watch(ctx, &holdfastv1.WatchRequest{
		Watches: asked.GetWatches(), Since: uint64(x.told), Seen: uint64(x.told), AllowStale: stale,
	})
	if err != nil {
		return
	}
	name := fmt.Sprintf("%s/%d", x.name, x.names)
	for x.told < upTo {
		m, err := stream.Recv()
		if err != nil {
			return // the node may be gone, or the time is over
		}
		x.take(m, name, specs)
		if x.rand.IntN(20) == 0 {
			sleep(ctx, time.Duration(x.rand.Int64N(int64(2*time.Second)))) // reads nothing for a while
		}
	}
}

// take records what a message tells.
func (x *streamer) take(m *holdfastv1.WatchResponse, name string, specs []tree.WatchSpec) {
	told := func(kind history.Kind, w history.Watched) {
		w.Name = name
		x.w.record.Add(history.Event{Kind: kind, Who: x.name, Watched: &w})
	}
	switch m := m.GetMessage().(type) {
	case *holdfastv1.WatchResponse_Started:
		stamp := tree.Stamp(m.Started.GetStamp())
		told(history.WatchBegan, history.Watched{Specs: specs, Stamp: stamp})
		x.told = max(x.told, stamp)
	case *holdfastv1.WatchResponse_Events:
		events, err := wire.EventsFrom(m.Events)
		if err != nil {
			x.w.failf("%s: events of the watch %s: %v", x.name, name, err)
		}
		for _, e := range events {
			told(history.WatchHeard, history.Watched{Event: e})
			x.told = max(x.told, e.Stamp-1) // another event of this stamp may follow (V4)
		}
	case *holdfastv1.WatchResponse_Lost:
		stamp := tree.Stamp(m.Lost.GetStamp())
		told(history.WatchLost, history.Watched{Stamp: stamp, Newest: x.w.plot.applied()})
		x.told = max(x.told, stamp)
	case *holdfastv1.WatchResponse_Told:
		stamp := tree.Stamp(m.Told.GetStamp())
		told(history.WatchTold, history.Watched{Stamp: stamp})
		x.told = max(x.told, stamp)
	}
}

func (x *streamer) conclude() {
	close(x.last)
	<-x.done
}
