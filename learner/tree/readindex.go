package tree

import (
	"context"
	"sync"

	"holdfast/learner/tree/dispatch"
)

// indexedReads requests from the leader the index of linearizable reads. Reads that come while a request is in flight
// share the next one (G5 linearizable reads). Safe for concurrent use.
type indexedReads struct {
	node Node
	hub  *dispatch.Hub

	mu sync.Mutex
	// waiting are the reads without a request to the leader. guarded by mu
	waiting []indexedRead
	// wake has space for one signal; nil before run. guarded by mu
	wake chan struct{}
}

// indexedRead is a read that waits for the leader's index.
type indexedRead struct {
	dispatcher *dispatch.Runner
	read       *dispatch.Request
}

// add adds a read.
func (a *indexedReads) add(q indexedRead) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, q)
	if a.wake == nil {
		return
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// begin returns the channel that signals new reads.
func (a *indexedReads) begin() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wake = make(chan struct{}, 1)
	a.wake <- struct{}{}
	return a.wake
}

// run sends requests until ctx ends. Several requests may be in flight, so that a read that just missed one need not
// wait for a whole round.
func (a *indexedReads) run(ctx context.Context) {
	wake := a.begin()
	var asking sync.WaitGroup
	defer asking.Wait()
	places := make(chan struct{}, maxSyncs)
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
		select {
		case <-ctx.Done():
			return
		case places <- struct{}{}:
		}
		asking.Go(func() {
			a.ask(ctx, a.removeAll())
			<-places
		})
	}
}

// maxSyncs bounds the requests in flight to the leader.
const maxSyncs = 4

func (a *indexedReads) removeAll() []indexedRead {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.waiting
	a.waiting = nil
	return all
}

// ask requests the index for some reads. Afterwards the node has applied the leader's index and published it: the
// newest published state shows it. The state's own index may be lower, because entries without commands publish
// nothing.
func (a *indexedReads) ask(ctx context.Context, all []indexedRead) {
	if len(all) == 0 {
		return
	}
	err := a.node.Sync(ctx)
	index := a.hub.Shown().Index
	for _, q := range all {
		q.dispatcher.Do(func(d *dispatch.Dispatcher) { d.SetReadIndex(q.read, index, err) })
	}
}
