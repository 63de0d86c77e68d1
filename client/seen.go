package client

import "sync/atomic"

// seen is the highest index that any node told this client (N4). Safe for concurrent use.
type seen struct{ index atomic.Uint64 }

// note takes an index that a node told.
func (s *seen) note(index uint64) {
	for {
		known := s.index.Load()
		if index <= known || s.index.CompareAndSwap(known, index) {
			return
		}
	}
}

// demand returns the lowest index that a read sent now may show.
func (s *seen) demand() uint64 { return s.index.Load() }

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
