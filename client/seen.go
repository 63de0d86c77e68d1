package client

import (
	"sync"

	"holdfast/tree"
)

// seen is the highest index that any node told this client (N4), and the highest stamp of the tree. Both are of one
// cluster: when a node of another one is heard, they begin anew. Safe for concurrent use.
type seen struct {
	mu   sync.Mutex
	told told // guarded by mu
}

// told is what nodes of a cluster have told.
type told struct {
	// cluster is the identity of the cluster, 0 until a node has told one.
	cluster uint64
	index   uint64
	stamp   tree.Stamp
}

// note takes what a node told. A node that tells no cluster is one of the present one.
func (s *seen) note(now told) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.cluster != 0 && now.cluster != s.told.cluster {
		if s.told.cluster != 0 {
			s.told = told{}
		}
		s.told.cluster = now.cluster
	}
	s.told.index, s.told.stamp = max(s.told.index, now.index), max(s.told.stamp, now.stamp)
}

// now returns what was told.
func (s *seen) now() told {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}

// demand returns the lowest index that a read sent now may show.
func (s *seen) demand() uint64 { return s.now().index }

// stamp returns the lowest stamp that a read of the tree sent now may show.
func (s *seen) stamp() tree.Stamp { return s.now().stamp }

// SeenIndex returns the highest index of the cluster's log that any node has told this client, 0 for none. The client
// sends it with each resume and each read, and no node serves them from an older state (N4): a node that is behind
// waits a little, then refuses, and the client asks another node. The connections of a [Pool] share the index. Safe for
// concurrent use.
//
// The index is one of the present cluster: when the cluster is begun anew, or restored from a backup, the client forgets
// it, and watches are told that events are lost ([session.ErrClusterChanged]). It may still be higher than the log, when
// all nodes are back on older copies of their directories. Then every read ends with [session.ErrLagging], until the
// application makes a new client. Sessions live on: when every node that answered was LAGGING for two rounds, the client
// logs a warning and resumes them without the index. This shows no older state (M3).
func (c *Client) SeenIndex() uint64 { return c.seen.demand() }
