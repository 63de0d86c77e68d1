package sim

import (
	"context"
	"fmt"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1" //nolint:depguard // a client without the SDK, which checks no answer
	"holdfast/test/sim/check"
	"holdfast/test/sim/history"
	"holdfast/transport/wire" //nolint:depguard // reads a node's messages
	"holdfast/tree"
)

// streamer watches the tree without the SDK, at one node after the other: it resumes from its last stamp. Each of its
// streams is a separate watch, and the node reports up to where the watch is complete (V5 stamps for idle watchers).
type streamer struct {
	*rawClient
	trees []holdfastv1.TreeServiceClient
	// progress is the stamp to resume from.
	progress tree.Stamp
	// names numbers the streams.
	names int
	// last is closed when the last fault is over, and done when the streamer has received everything.
	last, done chan struct{}
}

func (w *world) streamer(name string) *streamer {
	s, err := w.rawClient(name)
	if err != nil {
		w.t.Fatal(err)
	}
	x := &streamer{rawClient: s, last: make(chan struct{}), done: make(chan struct{})}
	for _, cc := range s.conns {
		x.trees = append(x.trees, holdfastv1.NewTreeServiceClient(cc))
	}
	return x
}

// work watches on one stream after the other. The last stream, after the last fault, receives everything.
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

// finish watches until it has received everything that a node has applied by now.
func (x *streamer) finish(ctx context.Context) {
	all := tree.StampAt(x.w.plot.applied(), tree.MaxPosition)
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	for x.progress < all && ctx.Err() == nil {
		x.stream(ctx, recovery, all, false)
		sleep(ctx, 100*time.Millisecond)
	}
	if x.progress < all {
		x.w.failf("%s: complete up to %v, and not up to %v, %v after the last fault", x.name, x.progress, all, recovery)
	}
}

// stream watches at a node until the watch is complete up to a stamp, for a while, or until the node ends the stream.
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
	sent := wire.AdditionProto(0, tree.Addition{Watches: specs})
	if x.rand.IntN(5) == 0 {
		x.progress = 0 // restarts
	}
	stream, err := x.trees[x.rand.IntN(len(x.trees))].Watch(ctx, &holdfastv1.WatchRequest{
		Watches: sent.GetWatches(), Since: uint64(x.progress), Seen: uint64(x.progress), AllowStale: stale,
	})
	if err != nil {
		return
	}
	name := fmt.Sprintf("%s/%d", x.name, x.names)
	for x.progress < upTo {
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

// take records the events of a message.
func (x *streamer) take(m *holdfastv1.WatchResponse, name string, specs []tree.WatchSpec) {
	record := func(kind history.Kind, w history.Watched) {
		w.Name = name
		x.w.record.Add(history.Event{Kind: kind, Who: x.name, Watched: &w})
	}
	switch m := m.GetMessage().(type) {
	case *holdfastv1.WatchResponse_Started:
		stamp := tree.Stamp(m.Started.GetStamp())
		record(history.WatchBegan, history.Watched{Specs: specs, Stamp: stamp})
		x.progress = max(x.progress, stamp)
	case *holdfastv1.WatchResponse_Events:
		events, err := wire.EventsFrom(m.Events)
		if err != nil {
			x.w.failf("%s: events of the watch %s: %v", x.name, name, err)
		}
		for _, e := range events {
			record(history.WatchReceived, history.Watched{Event: e})
			x.progress = max(x.progress, e.Stamp-1) // another event of this stamp may follow (V4 resumed watches)
		}
	case *holdfastv1.WatchResponse_Lost:
		stamp := tree.Stamp(m.Lost.GetStamp())
		record(history.WatchLost, history.Watched{Stamp: stamp, Newest: x.w.plot.applied()})
		x.progress = max(x.progress, stamp)
	case *holdfastv1.WatchResponse_Progress:
		stamp := tree.Stamp(m.Progress.GetStamp())
		record(history.WatchProgress, history.Watched{Stamp: stamp})
		x.progress = max(x.progress, stamp)
	}
}

func (x *streamer) conclude() {
	close(x.last)
	<-x.done
}
