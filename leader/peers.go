package leader

import (
	"cmp"
	"slices"
	"time"

	"holdfast/session"
)

// asideAfter is how many intervals a member has to answer for the first time in a term.
const asideAfter = 3

// Peer is what a term knows of one member of the newest configuration.
type Peer struct {
	Node  session.Node
	Voter bool
	// Heard says that the node has answered a heartbeat of this term on its present stream, and does not owe an answer
	// for longer than an interval.
	Heard bool
	// Draining says that the node is being drained, Full that its disk is full (O5).
	Draining, Full bool
	// Applied is the newest entry that the node has said it has applied.
	Applied uint64
}

// Peers returns what this term knows of each member, by node.
func (t *Tracker) Peers() []Peer { return t.heartbeats.peers() }

func (h *heartbeats) peers() []Peer {
	h.reconfigure()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rounds.peers(h.clock.read(h.mono()))
}

// peers returns what is known of each member at now, by node.
func (r *rounds) peers(now time.Duration) []Peer {
	var all []Peer
	for node, m := range r.members {
		if m.present {
			all = append(all, Peer{
				Node: node, Voter: m.voter, Heard: r.hears(m, now), Draining: m.told.draining, Full: m.told.full,
				Applied: m.told.index,
			})
		}
	}
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

// aside returns the members to which no client is sent at now, by node. It does not judge members that have not
// answered yet: right after an election that says nothing.
func (r *rounds) aside(now time.Duration) (a session.Aside) {
	young := now < asideAfter*r.pace.interval()
	for node, m := range r.members {
		switch {
		case !m.present, young && m.answered == nil:
		case !r.hears(m, now):
			a.Unheard = append(a.Unheard, node)
		case m.told.draining:
			a.Draining = append(a.Draining, node)
		case m.told.full:
			a.Full = append(a.Full, node)
		}
	}
	slices.Sort(a.Unheard)
	slices.Sort(a.Draining)
	slices.Sort(a.Full)
	return a
}

// noRoom reports whether every node is to refuse what adds to the log, because voters have full disks and those that
// are heard and have room are no quorum (O5). Right after an election a voter that has not answered yet counts as one
// with room.
func (r *rounds) noRoom(now time.Duration) bool {
	young := now < asideAfter*r.pace.interval()
	voters, room, full := 0, 0, 0
	for _, m := range r.members {
		switch {
		case !m.present || !m.voter:
			continue
		case m.told.full && r.hears(m, now):
			full++
		case r.hears(m, now), young && m.answered == nil:
			room++
		}
		voters++
	}
	return full > 0 && room <= voters/2
}

// hears reports whether a member can be counted on at now. A node whose process ended has no stream, and one that
// freezes owes an answer. The accountable clock stands while no round is good: then no member falls silent by it.
func (r *rounds) hears(m *member, now time.Duration) bool {
	return m.stream != nil && m.processed != nil && (m.sent == nil || now-m.sentAt <= r.pace.interval())
}
