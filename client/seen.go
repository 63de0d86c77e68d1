package client

import (
	"sync/atomic"

	"holdfast/tree"
)

// seen is the highest index that any node told this client (N4), and the highest stamp of the tree. Safe for concurrent
// use.
type seen struct{ log, tree mark }

// mark is a number that only rises. Safe for concurrent use.
type mark struct{ index atomic.Uint64 }

func (s *mark) note(index uint64) {
	for {
		known := s.index.Load()
		if index <= known || s.index.CompareAndSwap(known, index) {
			return
		}
	}
}

// note takes an index that a node told.
func (s *seen) note(index uint64) { s.log.note(index) }

// noteStamp takes a stamp that a node told.
func (s *seen) noteStamp(stamp tree.Stamp) { s.tree.note(uint64(stamp)) }

// demand returns the lowest index that a read sent now may show.
func (s *seen) demand() uint64 { return s.log.index.Load() }

// stamp returns the lowest stamp that a read of the tree sent now may show.
func (s *seen) stamp() tree.Stamp { return tree.Stamp(s.tree.index.Load()) }

// SeenIndex returns the highest index of the cluster's log that any node has told this client, 0 for none. The client
// sends it with each resume and each read, and no node serves them from an older state (N4): a node that is behind
// waits a little, then refuses, and the client asks another node. The connections of a [Pool] share the index. Safe for
// concurrent use.
//
// The index may be higher than the cluster's log: a node of another cluster told it, or the cluster was restored from
// an older backup. Then every read ends with [session.ErrLagging], until the application makes a new client. Sessions
// live on: when every node that answered was LAGGING for two rounds, the client logs a warning and resumes them without
// the index. This shows no older state (M3).
func (c *Client) SeenIndex() uint64 { return c.seen.demand() }
