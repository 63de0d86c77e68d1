package leader

import (
	"cmp"
	"slices"
	"time"

	"holdfast/session"
)

// firstAnswerIntervals is the number of intervals that a member has for its first answer in a term.
const firstAnswerIntervals = 3

// Peer is a term's knowledge of one member of the newest configuration.
type Peer struct {
	Node  session.Node
	Voter bool
	// Responsive says that the node has answered a heartbeat of this term on its present stream, and that no answer is
	// pending for longer than an interval.
	Responsive bool
	// Draining says that the node is being drained, Full that its disk is full (O5 full disks).
	Draining, Full bool
	// Applied is the newest entry that the node has reported as applied.
	Applied uint64
}

// Peers returns this term's knowledge of each member, by node.
func (t *Tracker) Peers() []Peer { return t.heartbeats.peers() }

func (h *heartbeats) peers() []Peer {
	h.reconfigure()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rounds.peers(h.clock.read(h.mono()))
}

// peers returns the knowledge of each member at now, by node.
func (r *rounds) peers(now time.Duration) []Peer {
	var all []Peer
	for node, m := range r.members {
		if m.present {
			all = append(all, Peer{
				Node: node, Voter: m.voter, Responsive: r.responsive(m, now), Draining: m.report.draining, Full: m.report.full,
				Applied: m.report.index,
			})
		}
	}
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

// excluded returns the members to which no client should go at now, by node. It leaves out members that have not
// answered yet right after an election, because their silence is normal then.
func (r *rounds) excluded(now time.Duration) (e session.Excluded) {
	young := now < firstAnswerIntervals*r.pace.interval()
	for node, m := range r.members {
		switch {
		case !m.present, young && m.answered == nil:
		case !r.responsive(m, now):
			e.Unreachable = append(e.Unreachable, node)
		case m.report.draining:
			e.Draining = append(e.Draining, node)
		case m.report.full:
			e.Full = append(e.Full, node)
		}
	}
	slices.Sort(e.Unreachable)
	slices.Sort(e.Draining)
	slices.Sort(e.Full)
	return e
}

// disksFull reports whether every node must refuse requests that add to the log: voters have full disks, and the
// responsive voters with free disks are no quorum (O5). Right after an election a voter that has not answered yet
// counts as one with a free disk.
func (r *rounds) disksFull(now time.Duration) bool {
	young := now < firstAnswerIntervals*r.pace.interval()
	voters, free, full := 0, 0, 0
	for _, m := range r.members {
		switch {
		case !m.present || !m.voter:
			continue
		case m.report.full && r.responsive(m, now):
			full++
		case r.responsive(m, now), young && m.answered == nil:
			free++
		}
		voters++
	}
	return full > 0 && free <= voters/2
}

// responsive reports whether a member is responsive at now. A node whose process has ended has no stream, and a frozen
// node has a pending answer. While no round is good, the accountable clock stops, and no member becomes unresponsive.
func (r *rounds) responsive(m *member, now time.Duration) bool {
	return m.stream != nil && m.processed != nil && (m.sent == nil || now-m.sentAt <= r.pace.interval())
}
