package check

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// hearing is an answer that a leader received at one moment, to a heartbeat that it sent at another.
type hearing struct{ sent, at time.Duration }

// term is everything known about one term's leader, by the answers that it received.
type term struct {
	number uint64
	leader string
	// The tracker's clock started after began, when its node applied an entry of the term (R5; 0 if unknown). It
	// started no later than first, when the first heartbeat was sent.
	began, first time.Duration
	// voters are those of the newest configuration that its leader found, nil if unknown.
	voters []session.Node
	// received are the answers of each node, in the order of time.
	received map[session.Node][]hearing
	// turns are the moments at which a newer round may have become good: the oldest answer of the newest quorum became
	// newer. Not each turn is a good round, but each good round is a turn (R3 good rounds).
	turns []time.Duration
	// took holds for each turn the age of the newest heartbeat that a quorum had answered.
	took []time.Duration
	// stopped are the spans in which the clock was certainly stopped (A1 accountable clock); the last is open.
	stopped []stopSpan
}

type stopSpan struct{ from, till time.Duration }

// processTerm names a node and a term.
type processTerm struct {
	who  string
	term uint64
}

// forever is later than any run.
const forever = time.Duration(1<<63 - 1)

// leaders is everything known about leaders: their terms, trackers and decisions.
type leaders struct {
	// interval is the time between two heartbeats, quorum the number of voters that make a round good.
	interval time.Duration
	quorum   int
	terms    map[uint64]*term
	// began is when a node first applied an entry of a term.
	began map[processTerm]time.Duration
	// trackers are the starts of a term's trackers: a leader that stalls starts another tracker (E1 full timeout after
	// a change of leader).
	trackers map[uint64][]time.Duration
	// elections are the starts of the first tracker of each term.
	elections []history.Event
	// good are all moments at which a round may have become good.
	good []time.Duration
	// decisions is the number of decisions that a session expires.
	decisions int
	// rosters are the configurations that leaders found, in the order of time.
	rosters []history.Event
}

// votersOf returns the voters of a configuration.
func votersOf(e history.Event) (all []session.Node) {
	for _, m := range e.Members {
		if m.Voter {
			all = append(all, m.Node)
		}
	}
	slices.Sort(all)
	return all
}

// configure files the configuration that a leader found. With other voters a round may have become good.
func (s *leaders) configure(e history.Event) {
	s.rosters = append(s.rosters, e)
	t := s.terms[e.Term]
	if t == nil || t.leader != e.Who {
		return
	}
	before := t.complete(s.quorum)
	t.voters = votersOf(e)
	t.turn(e.At, before, t.complete(s.quorum))
}

// voters returns those of the newest configuration that a term's leader has found, nil if that is not known.
func (s *leaders) voters(who string, number uint64) []session.Node {
	for _, e := range slices.Backward(s.rosters) {
		if e.Term == number && e.Who == who {
			return votersOf(e)
		}
	}
	return nil
}

// electorate returns the voters between two moments, nil if unknown. It reports false if a leader found other voters
// meanwhile.
func (s *leaders) electorate(from, till time.Duration) (voters []session.Node, same bool) {
	for _, e := range s.rosters {
		now := votersOf(e)
		if e.At > from && e.At <= till && !slices.Equal(now, voters) {
			return nil, false
		}
		if e.At <= from {
			voters = now
		}
	}
	return voters, true
}

// turn notes that a newer round may have become good.
func (t *term) turn(at, before, newest time.Duration) {
	if newest > before {
		t.turns, t.took = append(t.turns, at), append(t.took, at-newest)
	}
}

// begin files the first entry of a term that a node applied.
func (s *leaders) begin(e history.Event) {
	if at := (processTerm{e.Who, e.Term}); s.began[at] == 0 {
		s.began[at] = e.At
	}
}

// lead records the start of a tracker. If the term has another leader, lead returns it and records nothing.
func (s *leaders) lead(e history.Event) (other string) {
	at := slices.IndexFunc(s.elections, func(first history.Event) bool { return first.Term == e.Term })
	if at >= 0 && s.elections[at].Who != e.Who {
		return s.elections[at].Who
	}
	if at < 0 {
		s.elections = append(s.elections, e)
	}
	s.trackers[e.Term] = append(s.trackers[e.Term], e.At)
	return ""
}

// listen records an answer that a leader received. If the term has another leader, listen returns it and records
// nothing.
func (s *leaders) listen(e history.Event) (other string) {
	t := s.terms[e.Term]
	if t == nil {
		t = &term{
			number: e.Term, leader: e.Who, first: e.Sent, received: make(map[session.Node][]hearing),
			began: s.began[processTerm{e.Who, e.Term}], voters: s.voters(e.Who, e.Term),
		}
		s.terms[e.Term] = t
	}
	if t.leader != e.Who {
		return t.leader
	}
	before := t.complete(s.quorum)
	t.first = min(t.first, e.Sent)
	t.received[e.Node] = append(t.received[e.Node], hearing{e.Sent, e.At})
	t.turn(e.At, before, t.complete(s.quorum))
	return ""
}

// closeTerms finds out when each term's clock was stopped, and collects the good moments of all.
func (s *leaders) closeTerms() {
	for _, t := range s.terms {
		t.computeStops(s.interval, s.trackers[t.number])
		s.good = append(s.good, t.turns...)
	}
	slices.Sort(s.good)
}

// complete returns the newest moment such that a quorum has answered heartbeats sent at or after it; negative if there
// is none. If the voters are known, only they count, and quorum does not.
func (t *term) complete(quorum int) time.Duration {
	newest := make([]time.Duration, 0, len(t.received))
	for node, h := range t.received {
		if t.voters == nil || slices.Contains(t.voters, node) {
			newest = append(newest, h[len(h)-1].sent)
		}
	}
	if t.voters != nil {
		quorum = len(t.voters)/2 + 1
	}
	if quorum == 0 || len(newest) < quorum {
		return -1
	}
	slices.SortFunc(newest, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	return newest[quorum-1]
}

// computeStops computes when the clock was stopped. It runs for two intervals from its start, from that of each later
// tracker of the term, and from each good round (A1). A turn without a good round, and a start before the first
// heartbeat, can only make the real clock stop for longer.
func (t *term) computeStops(interval time.Duration, starts []time.Duration) {
	from := t.first
	for _, turn := range slices.Sorted(slices.Values(slices.Concat(t.turns, starts))) {
		if turn > from+2*interval {
			t.stopped = append(t.stopped, stopSpan{from + 2*interval, turn})
		}
		from = turn
	}
	t.stopped = append(t.stopped, stopSpan{from + 2*interval, forever})
}

// stoppedFor returns the least time for which the clock was stopped between two moments.
func (t *term) stoppedFor(from, till time.Duration) time.Duration {
	var sum time.Duration
	for _, s := range t.stopped {
		sum += max(min(s.till, till)-max(s.from, from), 0)
	}
	return sum
}

// slowest returns the duration of the slowest round between two moments, including the owner's answer.
func (t *term) slowest(owner session.Node, from, till time.Duration) time.Duration {
	var most time.Duration
	for i, turn := range t.turns {
		if turn >= from && turn <= till {
			most = max(most, t.took[i])
		}
	}
	var newest time.Duration
	for _, h := range t.received[owner] {
		if h.sent > newest && h.at >= from && h.at <= till {
			most = max(most, h.at-h.sent)
		}
		newest = max(newest, h.sent)
	}
	return most
}

// steady reports whether the moments between from and till are at most gap apart.
func steady(moments []time.Duration, from, till, gap time.Duration) bool {
	last := from
	for _, m := range moments {
		if m < from {
			continue
		}
		if m > till {
			break
		}
		if m > last+gap {
			return false
		}
		last = m
	}
	return till <= last+gap
}

// before returns the answers of a node that the leader received before a moment.
func (t *term) before(n session.Node, moment time.Duration) []hearing {
	all := t.received[n]
	return all[:sort.Search(len(all), func(i int) bool { return all[i].at >= moment })]
}

// by returns the answers of a node that the leader received up to a moment.
func (t *term) by(n session.Node, moment time.Duration) []hearing { return t.before(n, moment+1) }

// covering returns the first answer whose heartbeat was sent at or after a moment.
func covering(hearings []hearing, moment time.Duration) (hearing, bool) {
	i := sort.Search(len(hearings), func(i int) bool { return hearings[i].sent >= moment })
	if i == len(hearings) {
		return hearing{}, false
	}
	return hearings[i], true
}
