package leader

import (
	"sync/atomic"
	"time"
)

// counters count events since the term began. Safe for concurrent use.
type counters struct {
	rounds, clockStops       atomic.Uint64
	accepted, rejected       atomic.Uint64
	expired, closed, killed  atomic.Uint64
	returned, unknown        atomic.Uint64
	filled, full             atomic.Uint64
	contested                atomic.Uint64
	forwarded, writesRefused atomic.Uint64
	// fillTime is the time from the term's start until the queue was filled; 0 before.
	fillTime atomic.Int64
}

// Stats describes a tracker for metrics and status. Counters count since the term began.
type Stats struct {
	// Term is the tracker's term.
	Term uint64
	// Rounds is the number of begun rounds; GoodRound is the number of the newest good round.
	Rounds, GoodRound uint64
	// Elapsed is the accountable time of the term. Credited is the time for which the clock stopped, which ages no
	// session (A1 accountable clock). ClockStops is the number of stops.
	Elapsed, Credited time.Duration
	ClockStops        uint64
	// Sessions is the number of sessions in the queue. Of these, Due wait for a good round that their owner has
	// answered, and Closing are marked as closing.
	Sessions, Due, Closing int
	// Expired, Closed and Killed are the numbers of sessions that expired, that their clients closed, and that an
	// operator killed.
	Expired, Closed, Killed uint64
	// Returned is the number of removed closing marks, Unknown of those with an unknown outcome (E4 closing mark).
	Returned, Unknown uint64
	// Full is the number of opens and upgrades that were not proposed because the state is full (O4 state limits).
	Full uint64
	// Contested is the number of resumes that were refused because another living client has the session (M7 no
	// take-over from a living holder).
	Contested uint64
	// Forwarded is the number of writes accepted for the log, WritesRefused of refused writes (W4 answers from applied
	// entries).
	Forwarded, WritesRefused uint64
	// TouchesAccepted and TouchesRejected are the numbers of accepted and rejected touches (S1 confirmed touches).
	TouchesAccepted, TouchesRejected uint64
	// Members is the number of members with an open stream, Lost of members that are lost now (E1 full timeout after a
	// change of leader).
	Members, Lost int
	// FillTime is the time from the term's start until the queue had every session; 0 before.
	FillTime time.Duration
}

// Stats returns the tracker's present numbers.
func (t *Tracker) Stats() Stats {
	s := Stats{
		Term:            t.term.number,
		Rounds:          t.stats.rounds.Load(),
		ClockStops:      t.stats.clockStops.Load(),
		Expired:         t.stats.expired.Load(),
		Closed:          t.stats.closed.Load(),
		Killed:          t.stats.killed.Load(),
		Returned:        t.stats.returned.Load(),
		Unknown:         t.stats.unknown.Load(),
		Full:            t.stats.full.Load(),
		Contested:       t.stats.contested.Load(),
		Forwarded:       t.stats.forwarded.Load(),
		WritesRefused:   t.stats.writesRefused.Load(),
		TouchesAccepted: t.stats.accepted.Load(),
		TouchesRejected: t.stats.rejected.Load(),
		FillTime:        time.Duration(t.stats.fillTime.Load()),
	}
	t.heartbeats.describe(&s)
	t.registry.describe(&s)
	return s
}
