package leader

import (
	"sync/atomic"
	"time"
)

// counters count events since the term began. Safe for concurrent use.
type counters struct {
	rounds, stands           atomic.Uint64
	taken, notTaken          atomic.Uint64
	expired, closed, killed  atomic.Uint64
	returned, unknown        atomic.Uint64
	filled, full             atomic.Uint64
	contested                atomic.Uint64
	forwarded, writesRefused atomic.Uint64
	// fillTime is how long after the term's start the queue was filled, 0 while it is not.
	fillTime atomic.Int64
}

// Stats describes a tracker for metrics and status. Counters count since the term began.
type Stats struct {
	// Term is the tracker's.
	Term uint64
	// Rounds is the number of rounds begun; GoodRound is the number of the newest good one.
	Rounds, GoodRound uint64
	// Elapsed is the accountable time of the term. Credited is the time for which the clock stood, which ages no
	// session (A1). Stands is how often the clock stood.
	Elapsed, Credited time.Duration
	Stands            uint64
	// Sessions is the number of sessions in the queue. Of these, Due wait for a good round that their owner has
	// answered, and Closing are marked as closing.
	Sessions, Due, Closing int
	// Expired is the number of sessions that ended by expiry, Closed by their client's wish, Killed by an operator.
	Expired, Closed, Killed uint64
	// Returned is the number of closing marks taken back, Unknown of those whose outcome was unknown (E4).
	Returned, Unknown uint64
	// Full is the number of opens and upgrades that were not proposed for want of room (O4).
	Full uint64
	// Contested is the number of resumes that were refused because another client lives and has the session (M7).
	Contested uint64
	// Forwarded is the number of writes that were taken for the log, WritesRefused of writes that were refused (W4).
	Forwarded, WritesRefused uint64
	// Taken is the number of touches taken, NotTaken of touches not taken (S1).
	Taken, NotTaken uint64
	// Members is the number of members with an open stream, Lost of members that are lost now (E1).
	Members, Lost int
	// FillTime is how long after the term's start the queue held every session; 0 while it is being filled.
	FillTime time.Duration
}

// Stats returns the tracker's numbers as they are now.
func (t *Tracker) Stats() Stats {
	s := Stats{
		Term:          t.term.number,
		Rounds:        t.stats.rounds.Load(),
		Stands:        t.stats.stands.Load(),
		Expired:       t.stats.expired.Load(),
		Closed:        t.stats.closed.Load(),
		Killed:        t.stats.killed.Load(),
		Returned:      t.stats.returned.Load(),
		Unknown:       t.stats.unknown.Load(),
		Full:          t.stats.full.Load(),
		Contested:     t.stats.contested.Load(),
		Forwarded:     t.stats.forwarded.Load(),
		WritesRefused: t.stats.writesRefused.Load(),
		Taken:         t.stats.taken.Load(),
		NotTaken:      t.stats.notTaken.Load(),
		FillTime:      time.Duration(t.stats.fillTime.Load()),
	}
	t.heartbeats.describe(&s)
	t.registry.describe(&s)
	return s
}
