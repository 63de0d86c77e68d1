package leader

import (
	"cmp"
	"slices"
	"time"

	"holdfast/session"
)

// Peer is what a term knows of one member of the newest configuration.
type Peer struct {
	Node  session.Node
	Voter bool
	// Heard says that the node has answered a heartbeat of this term on its present stream, and does not owe an answer
	// for longer than an interval.
	Heard bool
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
			all = append(all, Peer{Node: node, Voter: m.voter, Heard: r.hears(m, now), Applied: m.told.index})
		}
	}
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

// hears reports whether a member can be counted on at now. A node whose process ended has no stream, and one that
// freezes owes an answer. The accountable clock stands while no round is good: then no member falls silent by it.
func (r *rounds) hears(m *member, now time.Duration) bool {
	return m.stream != nil && m.processed != nil && (m.sent == nil || now-m.sentAt <= r.pace.interval())
}
