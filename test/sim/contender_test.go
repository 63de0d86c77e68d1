package sim

import (
	"context"
	"sync"
	"time"

	"holdfast/client"
	"holdfast/test/sim/check"
	"holdfast/test/sim/history"
)

// contender is a tenant that competes with others: each of its sessions competes for every prize. Sometimes its process
// freezes: no traffic comes in or goes out, and its strands stop. Strands that had checked their context before then
// write late.
type contender struct {
	*tenant
	contest *contest
	// strands are the concurrent activities of each session.
	strands []strand
	// last is closed when the last fault is over: then each strand takes one more turn and rests. done is closed when
	// all have had theirs.
	last, done chan struct{}

	running sync.Mutex
	goes    chan struct{} // guarded by running; closed when the frozen process continues, nil while it runs
}

// strand is an activity that a contender repeats until ctx or the session ends. After the last fault it takes one more
// turn, and reports that it has had it.
type strand func(ctx context.Context, s *client.Session) bool

func (w *world) contender(name string, c *contest) *contender {
	x := &contender{tenant: w.tenant(name), contest: c, last: make(chan struct{}), done: make(chan struct{})}
	for _, p := range prizes() {
		x.strands = append(x.strands, func(ctx context.Context, s *client.Session) bool { return x.strive(ctx, s, p) })
	}
	return x
}

// contested reports whether the cluster has contenders: in two of seven seeds.
func (w *world) contested() bool {
	return (w.seed%7 == 1 || w.seed%7 == 3) && !w.narrow() && !without(check.Contenders)
}

// work competes with one session after the other, until each strand has had its last turn or ctx ends.
func (x *contender) work(ctx context.Context) {
	pending := x.strands
	for ctx.Err() == nil {
		s := x.open(ctx, 30*time.Second)
		if s == nil {
			sleep(ctx, 500*time.Millisecond) // the open may have been refused at once
			continue
		}
		if pending = x.compete(ctx, s, pending); len(pending) == 0 {
			close(x.done)
			return
		}
		if s.Err() == nil {
			x.close(ctx, s)
		}
	}
}

// compete runs strands with a session, for a while or until the session ends. It returns those that have not had their
// last turn.
func (x *contender) compete(ctx context.Context, s *client.Session, all []strand) (pending []strand) {
	striving, end := context.WithCancel(ctx)
	defer end()
	var strands sync.WaitGroup
	had := make([]bool, len(all))
	for i, one := range all {
		strands.Go(func() { had[i] = one(striving, s) })
	}
	finished := make(chan struct{})
	go func() { strands.Wait(); close(finished) }()
	x.accompany(ctx, s, finished)
	end()
	<-finished
	for i, one := range all {
		if !had[i] {
			pending = append(pending, one)
		}
	}
	return pending
}

// accompany injects the events of a process, until its session ends, all strands have finished, or they are to give
// everything up. There are none after the last fault.
func (x *contender) accompany(ctx context.Context, s *client.Session, finished <-chan struct{}) {
	for !x.isLast() {
		timer := time.NewTimer(x.between(2*time.Second, 9*time.Second))
		select {
		case <-timer.C:
		case <-x.last:
		case <-s.Done():
		case <-ctx.Done():
		}
		timer.Stop()
		switch {
		case x.isLast():
		case s.Err() != nil || ctx.Err() != nil:
			return
		default:
			switch x.draw(6) {
			case 0, 1, 2:
				x.freeze(ctx, s)
			case 3:
				x.close(ctx, s) // with all its grants and waits
				return
			case 4:
				return
			}
		}
	}
	select {
	case <-finished:
	case <-s.Done():
	case <-ctx.Done():
	}
}

// freeze stops the process for a while, often for longer than its session lives. The SDK's own timers run on.
func (x *contender) freeze(ctx context.Context, s *client.Session) {
	sent, goes := x.w.record.Now(), make(chan struct{})
	x.w.Pause(x.name)
	x.running.Lock()
	x.goes = goes
	x.running.Unlock()
	x.wait(ctx, x.between(time.Second, 15*time.Second))
	x.running.Lock()
	x.goes = nil
	x.running.Unlock()
	x.w.Resume(x.name)
	close(goes)
	x.w.record.Add(history.Event{Kind: history.Froze, Who: x.name, ID: s.ID(), Sent: sent})
}

// runs waits while the process is frozen.
func (x *contender) runs() {
	x.running.Lock()
	goes := x.goes
	x.running.Unlock()
	if goes != nil {
		<-goes
	}
}

// wait waits, and no longer than until the last fault is over.
func (x *contender) wait(ctx context.Context, d time.Duration) {
	waiting, end := context.WithTimeout(ctx, d)
	defer end()
	select {
	case <-waiting.Done():
	case <-x.last:
	}
}

func (x *contender) isLast() bool {
	select {
	case <-x.last:
		return true
	default:
		return false
	}
}
