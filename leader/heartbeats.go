package leader

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// heartbeats guards the rounds and the accountable clock, and begins rounds in time. One mutex guards both, so that the
// critical section that uses a moment also reads it from the clock. Safe for concurrent use.
type heartbeats struct {
	term   *term
	view   View
	logger hclog.Logger
	stats  *counters
	// wake wakes the goroutine of [Tracker.Run], which calls checkRound and begin.
	wake  signal
	start time.Time
	pace  *pace
	// reads counts the reads of the configuration.
	reads atomic.Uint64

	mu     sync.Mutex
	clock  clock   // guarded by mu
	rounds *rounds // guarded by mu
	// regular is the monotonic time at which the next round begins even if nothing waits for a round. Guarded by mu.
	regular time.Duration
	// latest has the number of the newest read whose configuration is in use, and the newest round that a reader waits
	// for. Guarded by mu.
	latest struct{ applied, wanted uint64 }
	// freezes has the freezes of the cluster, on clock. Guarded by mu.
	freezes session.FreezeTracker
	// turned is closed and replaced when a round becomes good. Guarded by mu.
	turned chan struct{}
}

// wants are the moments of the accountable clock for which the expirer waits.
type wants struct {
	// round is the earliest moment at which the needed round may begin (E2 the owner answers first); never if the
	// expirer needs none.
	round time.Duration
	// bucket is the time when the next bucket of the queue comes due, if filed.
	bucket time.Duration
	filed  bool
}

// until records a bucket's time unless an earlier one is known.
func (w *wants) until(bucket time.Duration) {
	if !w.filed || bucket < w.bucket {
		w.bucket, w.filed = bucket, true
	}
}

// newHeartbeats returns the rounds of a term, whose clock starts now.
func newHeartbeats(cfg *Config, term *term, view View, stats *counters, wake signal) *heartbeats {
	h := &heartbeats{
		term: term, view: view, logger: cfg.Logger, stats: stats, wake: wake,
		start:  time.Now(),
		pace:   newPace(cfg.Interval),
		clock:  clock{limit: 2 * cfg.Interval},
		turned: make(chan struct{}),
	}
	h.rounds = newRounds(cfg.Term, h.pace, cfg.After)
	h.rounds.leads = cfg.Node
	members := view.Members()
	h.rounds.configure(members, view.LastIndex(), 0)
	return h
}

// mono returns the monotonic time since the term began.
func (h *heartbeats) mono() time.Duration { return time.Since(h.start) }

// now reads the accountable clock.
func (h *heartbeats) now() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clock.read(h.mono())
}

// credit returns the total time for which the clock has stopped since the term began.
func (h *heartbeats) credit() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clock.credit(h.mono())
}

// owners returns the clock's reading and the state of every owner at that moment.
func (h *heartbeats) owners() (time.Duration, *ownerStates) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.read(h.mono())
	return now, h.rounds.owners(now, h.freezes.FullTimeoutFrom(now))
}

// newest returns the number of the newest begun round of all trackers of the term.
func (h *heartbeats) newest() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.rounds.newest.number(), h.rounds.after)
}

// good returns the number of the newest good round; 0 before the first.
func (h *heartbeats) good() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rounds.good.number()
}

// reconfigure applies the newest configuration. Of two overlapping calls, the later read wins. A stopping node reports
// no members at all: reconfigure then changes nothing, so that no member counts as lost.
func (h *heartbeats) reconfigure() {
	read := h.reads.Add(1)
	members := h.view.Members()
	last := h.view.LastIndex()
	h.mu.Lock()
	var ended []*stream
	if read > h.latest.applied && len(members) > 0 {
		h.latest.applied = read
		ended = h.rounds.configure(members, last, h.clock.read(h.mono()))
	}
	h.mu.Unlock()
	for _, s := range ended {
		s.stop(fmt.Errorf("node %d left the cluster: %w", s.hello.Node, session.ErrWrongCluster))
	}
}

// checkRound checks whether a newer round is good. If so, the clock continues (A1 accountable clock), and the readers
// that wait for the round wake up (R4 leadership needs a good round).
func (h *heartbeats) checkRound() {
	h.mu.Lock()
	if !h.rounds.advance() {
		h.mu.Unlock()
		return
	}
	good := h.rounds.good.n
	credited := h.clock.good(h.mono())
	h.clock.limit = 2 * h.pace.interval() // not earlier, because a clock must never go back
	close(h.turned)
	h.turned = make(chan struct{})
	h.mu.Unlock()
	if credited > 0 {
		h.stats.clockStops.Add(1)
		h.logger.Warn("time credited to every session", "credited", credited, "round", good, "term", h.term.number)
	}
}

// begin begins a round if one is needed, and signals the streams that can send a heartbeat. It returns the time to wait
// before the next call. Call it after checkRound, so that heartbeats confirm everything that the newest good round
// permits.
//
// Besides the regular rounds, at most one round is in progress. It serves every reader that came during the previous
// round (R4).
func (h *heartbeats) begin(w wants) time.Duration {
	applied := h.view.AppliedIndex()
	h.mu.Lock()
	mono := h.mono()
	now := h.clock.read(mono)
	newest := h.rounds.newest
	wanted := h.latest.wanted > newest.number() || w.round > newest.moment()
	begins := mono >= h.regular || wanted && newest == h.rounds.good
	if begins {
		h.rounds.begin(now)
		h.rounds.decide(now)
		h.rounds.compare(applied, now)
		h.regular = mono + h.pace.interval()
	}
	ready := h.rounds.ready()
	wait := h.regular - mono
	if at, ok := h.rounds.nextLoss(now); ok {
		wait = h.sooner(wait, at, mono)
	}
	if w.filed {
		wait = h.sooner(wait, w.bucket, mono)
	}
	h.mu.Unlock()
	if begins {
		h.stats.rounds.Add(1)
	}
	for _, s := range ready {
		s.beats.set()
	}
	return wait
}

// sooner returns wait, or the time until the clock reads at if that is shorter. Called with mu held.
func (h *heartbeats) sooner(wait, at, mono time.Duration) time.Duration {
	if d, ok := h.clock.until(at, mono); ok {
		return min(wait, d)
	}
	return wait
}

// await returns once a round that began after the call is good (R4). The error is ctx's, or a [session.NotLeaderError].
func (h *heartbeats) await(ctx context.Context) error {
	h.mu.Lock()
	need := h.rounds.newest.number() + 1
	h.latest.wanted = max(h.latest.wanted, need)
	h.mu.Unlock()
	h.wake.set()
	for {
		h.mu.Lock()
		good, turned := h.rounds.good.number(), h.turned
		h.mu.Unlock()
		if good >= need {
			return nil
		}
		select {
		case <-turned:
		case <-h.term.over:
			return &session.NotLeaderError{}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// quicken makes rounds frequent enough for a session with a short timeout (R1 rounds).
func (h *heartbeats) quicken(timeout time.Duration) {
	h.mu.Lock()
	interval, shorter := h.pace.quicken(timeout)
	if shorter {
		h.regular = min(h.regular, h.mono()+interval)
	}
	h.mu.Unlock()
	if shorter {
		h.wake.set()
		h.logger.Warn("rounds are more frequent than heartbeat_interval in this term, for a session with a short "+
			"timeout",
			"interval", interval, "heartbeat_interval", h.pace.setting, "timeout", timeout, "term", h.term.number)
	}
}

// open makes s the newest stream of its node, see rounds.open.
func (h *heartbeats) open(s *stream) (ended *stream, err error) {
	h.mu.Lock()
	ended, err = h.rounds.open(s, h.clock.read(h.mono()))
	h.mu.Unlock()
	return ended, err
}

// reopen decides about a stream that open refused, see rounds.reopen.
func (h *heartbeats) reopen(s *stream, newest session.Hello) (ended *stream, err error) {
	h.mu.Lock()
	ended, err = h.rounds.reopen(s, newest, h.clock.read(h.mono()))
	h.mu.Unlock()
	return ended, err
}

// close records the end of a stream.
func (h *heartbeats) close(s *stream) {
	h.mu.Lock()
	h.rounds.close(s, h.clock.read(h.mono()))
	h.mu.Unlock()
	h.wake.set()
}

// send returns the heartbeat to send on s now, and records it as sent; nil for none. The caller adds the attachment and
// the rejected touches.
func (h *heartbeats) send(s *stream) *session.Heartbeat {
	h.mu.Lock()
	defer h.mu.Unlock()
	mono := h.mono()
	now := h.clock.read(mono)
	r := h.rounds.next(s, now)
	if r == nil {
		return nil
	}
	s.sentAt = mono
	return &session.Heartbeat{
		Round: r.n, Good: h.rounds.good.number(), Confirmed: h.rounds.confirmed(s),
		Processed: h.rounds.known(s),
		VotesFrom: h.rounds.votesFrom(s, now), Compare: h.rounds.comparison.index, Compared: h.rounds.comparison.found,
		Interval: h.pace.interval(), AppliedElsewhere: h.rounds.appliedElsewhere(s),
		Excluded: h.rounds.excluded(now), DisksFull: h.rounds.disksFull(now),
	}
}

// awaits reports whether an answer to a round is due on s. If so, it returns the clock's reading, and the time when the
// heartbeat was sent.
func (h *heartbeats) awaits(s *stream, round uint64) (now time.Duration, sent time.Time, due bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clock.read(h.mono()), h.start.Add(s.sentAt), h.rounds.expects(s, round)
}

// recordAnswer processes the last chunk of an answer that arrived at now, unless s has ended meanwhile.
func (h *heartbeats) recordAnswer(s *stream, a *session.Answer, now time.Duration) {
	h.mu.Lock()
	if h.rounds.expects(s, a.Round) {
		h.rounds.answer(s, a, now)
		h.rounds.decide(now)
	}
	h.mu.Unlock()
	h.wake.set()
}

// follows reports whether a node has an open stream.
func (h *heartbeats) follows(node session.Node) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.rounds.members[node]
	return m != nil && m.stream != nil
}

// served reports whether a node's process has served its clients since a moment, as far as the leader knows.
func (h *heartbeats) served(node session.Node, since time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.rounds.members[node]
	return m != nil && !h.rounds.lost(m, h.clock.read(h.mono())) && m.started <= since
}

// describe sets the fields about rounds, clock and members.
func (h *heartbeats) describe(s *Stats) {
	h.mu.Lock()
	defer h.mu.Unlock()
	mono := h.mono()
	now := h.clock.read(mono)
	s.Elapsed, s.Credited = now, mono-now
	s.GoodRound = h.rounds.good.number()
	for _, m := range h.rounds.members {
		if m.stream != nil {
			s.Members++
		}
		if m.present && h.rounds.lost(m, now) {
			s.Lost++
		}
	}
}
