package leader

import (
	"sync/atomic"
	"time"
)

// counters are what is counted as it happens.
type counters struct {
	rounds, stands                     atomic.Uint64
	taken, notTaken                    atomic.Uint64
	expired, closed, returned, unknown atomic.Uint64
	filled, full                       atomic.Uint64
	// fillTime is how long after the term's start the queue was filled, 0 while it is not.
	fillTime atomic.Int64
}

// Stats is what a tracker says about itself, for metrics and status. Counters count since the term began.
type Stats struct {
	// Term is the tracker's.
	Term uint64
	// Rounds is the number of rounds begun; GoodRound the number of the newest good one.
	Rounds, GoodRound uint64
	// Elapsed is the accountable time of the term; Credited is the time beyond it that was held against nobody (A1);
	// Stands is how often the clock stood.
	Elapsed, Credited time.Duration
	Stands            uint64
	// Sessions is the number tracked now; of these Due wait for a good round or their owner's word, and Closing are
	// marked as closing.
	Sessions, Due, Closing int
	// Expired is the number of sessions that ended by expiry, Closed by their client's wish.
	Expired, Closed uint64
	// Returned is the number of closing marks taken back, Unknown of those whose outcome was unknown (E4).
	Returned, Unknown uint64
	// Full is the number of opens and upgrades that were not proposed for want of room (O4).
	Full uint64
	// Taken is the number of touches taken, NotTaken of those not (S1).
	Taken, NotTaken uint64
	// Members is the number of members with an open stream, Lost of those that are lost now (E1).
	Members, Lost int
	// FillTime is how long after the term's start every session was in the queue; 0 while they are being filled in.
	FillTime time.Duration
}

// Newest returns the number of the newest round that was begun, see [Config].
func (t *Tracker) Newest() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.rounds.newest.number(), t.cfg.After)
}

// Good returns the number of the newest good round, 0 before the first (R3).
func (t *Tracker) Good() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rounds.good.number()
}

// Stats returns the tracker's numbers as they are now.
func (t *Tracker) Stats() Stats {
	s := Stats{
		Term:     t.cfg.Term,
		Rounds:   t.stats.rounds.Load(),
		Stands:   t.stats.stands.Load(),
		Expired:  t.stats.expired.Load(),
		Closed:   t.stats.closed.Load(),
		Returned: t.stats.returned.Load(),
		Unknown:  t.stats.unknown.Load(),
		Full:     t.stats.full.Load(),
		Taken:    t.stats.taken.Load(),
		NotTaken: t.stats.notTaken.Load(),
		FillTime: time.Duration(t.stats.fillTime.Load()),
	}
	t.mu.Lock()
	mono := t.mono()
	now := t.clock.read(mono)
	s.Elapsed, s.Credited = now, mono-now
	s.GoodRound = t.rounds.good.number()
	for _, m := range t.rounds.members {
		if m.stream != nil {
			s.Members++
		}
		if m.present && t.rounds.lost(m, now) {
			s.Lost++
		}
	}
	t.mu.Unlock()
	for i := range t.shards {
		shard := &t.shards[i]
		shard.mu.Lock()
		s.Sessions += shard.queue.Len()
		s.Due += shard.queue.Due()
		s.Closing += shard.queue.Marked()
		shard.mu.Unlock()
	}
	return s
}
