package client

import "sync/atomic"

// seen is the highest index that a node told (N4). Safe for concurrent use.
type seen struct{ index atomic.Uint64 }

// note takes what a node told.
func (s *seen) note(index uint64) {
	for {
		known := s.index.Load()
		if index <= known || s.index.CompareAndSwap(known, index) {
			return
		}
	}
}

// demand returns what a read that is sent now may not be older than.
func (s *seen) demand() uint64 { return s.index.Load() }

// SeenIndex returns the highest index of the cluster's log that any node has told this client, 0 for none. It goes
// along with each resume and each read, and no node serves either from an older state (N4): one that is behind waits a
// little, and is passed over then. The connections of a [Pool] have it in common. Safe for concurrent use.
//
// An index that the cluster has never come to, told by a node of another cluster or before the cluster was restored
// from an older backup, has every read refused with [session.ErrLagging] from then on: only a new client forgets it.
// Sessions do not end by it: when every node that answered has been LAGGING for two rounds, a warning is logged, and
// they are resumed without the index, which shows nothing older (M3).
func (c *Client) SeenIndex() uint64 { return c.seen.demand() }
