package client

import (
	"cmp"
	"slices"
	"sync"

	"holdfast/tree"
)

// maxClusters bounds the clusters whose reports a client remembers. A client normally has one cluster, and another
// after a mistake in its endpoints or a restore.
const maxClusters = 4

// seen is the highest index that any node reported to this client (N4 seen index), and the highest stamp of the tree.
// Both belong to the cluster of the last report. Reports of other clusters are kept: a single answer from a foreign
// cluster resets nothing. Safe for concurrent use.
type seen struct {
	mu sync.Mutex
	// reports has the present cluster last, and at most [maxClusters]. guarded by mu
	reports []nodeReport
}

// nodeReport is the newest report of a cluster's nodes.
type nodeReport struct {
	// cluster is the identity of the cluster, 0 until a node has reported one.
	cluster uint64
	index   uint64
	stamp   tree.Stamp
}

// note records a node's report. A report without a cluster belongs to the present cluster.
func (s *seen) note(now nodeReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.present()
	if now.cluster != 0 && now.cluster != before.cluster && before.cluster != 0 {
		before = nodeReport{}
		if at := slices.IndexFunc(s.reports, func(t nodeReport) bool { return t.cluster == now.cluster }); at >= 0 {
			before = s.reports[at]
			s.reports = slices.Delete(s.reports, at, at+1)
		}
		s.reports = append(s.reports, before)
		s.reports = s.reports[max(len(s.reports)-maxClusters, 0):]
	}
	if len(s.reports) == 0 {
		s.reports = append(s.reports, before)
	}
	s.reports[len(s.reports)-1] = nodeReport{
		cluster: cmp.Or(now.cluster, before.cluster), index: max(before.index, now.index), stamp: max(before.stamp, now.stamp),
	}
}

// present returns the report of the present cluster. The caller holds mu.
func (s *seen) present() nodeReport {
	if len(s.reports) == 0 {
		return nodeReport{}
	}
	return s.reports[len(s.reports)-1]
}

// now returns the report of the present cluster.
func (s *seen) now() nodeReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.present()
}

// demand returns the lowest index that a read sent now may show.
func (s *seen) demand() uint64 { return s.now().index }

// stamp returns the lowest stamp that a read of the tree sent now may show.
func (s *seen) stamp() tree.Stamp { return s.now().stamp }

// SeenIndex returns the highest index of the cluster's log that any node has reported to this client, 0 for none. The
// client sends it with each resume and each read, and no node answers from an older state (N4): a node that is behind
// waits a little, then refuses, and the client asks another node. The connections of a [Pool] share the index. Safe for
// concurrent use.
//
// The index belongs to the present cluster: when the cluster starts anew, or is restored from a backup, the index
// starts at 0, and watches report lost events ([session.ErrClusterChanged]). The index may still be higher than the
// log, when all nodes run on older copies of their directories. Then every read ends with [session.ErrLagging], until
// the application makes a new client. Sessions live on: when every node that answered was LAGGING for two rounds, the
// client logs a warning and resumes the sessions without the index. These resumes show no older state (M3 served in the
// leader's term).
func (c *Client) SeenIndex() uint64 { return c.seen.demand() }
