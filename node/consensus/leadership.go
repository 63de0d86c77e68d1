package consensus

import "github.com/hashicorp/raft"

// leadership joins Raft's two sources of news about leaders into one signal: look again.
type leadership struct {
	// notify is Raft's NotifyCh. observed has what Raft's observer sees.
	notify   chan bool
	observed chan raft.Observation
	observer *raft.Observer
	// changed and news get a token after each change: changed is for the role loop, news for [election.Voter].
	changed chan struct{}
	news    chan struct{}
	stopped chan struct{}
	ended   chan struct{}
}

func newLeadership() *leadership {
	l := &leadership{
		notify:   make(chan bool, 1),
		observed: make(chan raft.Observation, 16),
		changed:  make(chan struct{}, 1),
		news:     make(chan struct{}, 1),
		stopped:  make(chan struct{}),
		ended:    make(chan struct{}),
	}
	go l.relay()
	return l
}

func (l *leadership) relay() {
	defer close(l.ended)
	for {
		select {
		case <-l.notify:
		case <-l.observed:
		case <-l.stopped:
			return
		}
		l.again()
		signal(l.news)
	}
}

// again has the role loop look again. It does not wait.
func (l *leadership) again() { signal(l.changed) }

// signal leaves a token in a channel that has room for one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (l *leadership) observe(r *raft.Raft) {
	l.observer = raft.NewObserver(l.observed, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		default:
			return false
		}
	})
	r.RegisterObserver(l.observer)
}

func (l *leadership) forget(r *raft.Raft) {
	if l.observer != nil {
		r.DeregisterObserver(l.observer)
	}
}

// close ends the relaying. Raft must have ended: it blocks on a NotifyCh that nobody reads.
func (l *leadership) close() {
	close(l.stopped)
	<-l.ended
}
