package client

import (
	"cmp"
	"slices"
	"sync"

	"holdfast/tree"
)

// maxClusters is the number of clusters of which a client remembers what their nodes have told. A client has one, and
// another one by a mistake in its endpoints, or after a restore.
const maxClusters = 4

// seen is the highest index that any node told this client (N4), and the highest stamp of the tree. Both are of the
// cluster whose node told the client something last. What nodes of another one have told is kept: a single answer of a
// stranger takes back nothing. Safe for concurrent use.
type seen struct {
	mu sync.Mutex
	// told has the present cluster last, and at most [maxClusters]. guarded by mu
	told []told
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
	before := s.present()
	if now.cluster != 0 && now.cluster != before.cluster && before.cluster != 0 {
		before = told{}
		if at := slices.IndexFunc(s.told, func(t told) bool { return t.cluster == now.cluster }); at >= 0 {
			before = s.told[at]
			s.told = slices.Delete(s.told, at, at+1)
		}
		s.told = append(s.told, before)
		s.told = s.told[max(len(s.told)-maxClusters, 0):]
	}
	if len(s.told) == 0 {
		s.told = append(s.told, before)
	}
	s.told[len(s.told)-1] = told{
		cluster: cmp.Or(now.cluster, before.cluster), index: max(before.index, now.index), stamp: max(before.stamp, now.stamp),
	}
}

// present returns what nodes of the present cluster have told. The caller holds mu.
func (s *seen) present() told {
	if len(s.told) == 0 {
		return told{}
	}
	return s.told[len(s.told)-1]
}

// now returns what nodes of the present cluster have told.
func (s *seen) now() told {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.present()
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
// The index is one of the present cluster: when the cluster is begun anew, or restored from a backup, the client has none
// of it yet, and watches are told that events are lost ([session.ErrClusterChanged]). It may still be higher than the
// log, when all nodes are back on older copies of their directories. Then every read ends with [session.ErrLagging],
// until the application makes a new client. Sessions live on: when every node that answered was LAGGING for two rounds,
// the client logs a warning and resumes them without the index. This shows no older state (M3).
func (c *Client) SeenIndex() uint64 { return c.seen.demand() }
