package namespace

import (
	"context"
	"sync"

	"holdfast/learner/lane"
)

// asker asks the leader for linearizable reads. Reads that come while it asks share the next question (G5). Safe for
// concurrent use.
type asker struct {
	node Node
	hub  *lane.Hub

	mu sync.Mutex
	// waiting are the reads whose question has not been asked. guarded by mu
	waiting []question
	// wake has room for one signal, nil before run. guarded by mu
	wake chan struct{}
}

// question is a read that waits for the leader's index.
type question struct {
	lane *lane.Runner
	read *lane.Pending
}

// add adds a read.
func (a *asker) add(q question) {
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

// begin returns the channel that tells of new reads.
func (a *asker) begin() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wake = make(chan struct{}, 1)
	a.wake <- struct{}{}
	return a.wake
}

// run asks until ctx ends. Some questions may be under way: a read that just missed one waits for no whole round.
func (a *asker) run(ctx context.Context) {
	wake := a.begin()
	var asking sync.WaitGroup
	defer asking.Wait()
	places := make(chan struct{}, questions)
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
			a.ask(ctx, a.take())
			<-places
		})
	}
}

// questions is how many questions to the leader are under way, at most.
const questions = 4

func (a *asker) take() []question {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.waiting
	a.waiting = nil
	return all
}

// ask asks for some reads. The node has then applied what the leader told, and published it: the newest published state
// shows it. Its own index may be lower, as entries without commands publish nothing.
func (a *asker) ask(ctx context.Context, all []question) {
	if len(all) == 0 {
		return
	}
	err := a.node.Sync(ctx)
	index := a.hub.Shown().Index
	for _, q := range all {
		q.lane.Do(func(l *lane.Lane) { l.Asked(q.read, index, err) })
	}
}
