package core

import (
	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// A cluster that is begun anew, or restored from a backup, is another one: its log has other indexes, and its tree other
// stamps. What a client was told of the former cluster would have the nodes of the present one refuse its reads for
// ever, and begin its watches in the middle. So a client keeps all of that with the identity of the cluster, and forgets
// it as soon as the node that it uses is of another one. A candidate changes nothing: it may be a server that was named
// by mistake, which refuses the sessions.

// isAnother reports whether an identity is another cluster's than what the client was told.
func (l *ledger) isAnother(cluster uint64) bool {
	return cluster != 0 && l.cluster != 0 && cluster != l.cluster
}

// clusterIs takes the state of the present node.
func (l *ledger) clusterIs(now *session.NodeState) {
	if l.isAnother(now.Cluster) {
		l.effects.log(hclog.Warn, "another cluster than before: it was begun anew or restored, or an address is another "+
			"cluster's now; watches are told that events are lost", "node", now.Node)
		l.effects.Seen, l.effects.Stamp, l.distrusted = now.Index, 0, 0
		l.watchAnew()
	}
	if now.Cluster != 0 {
		l.cluster, l.effects.Cluster = now.Cluster, now.Cluster
	}
}

// seenElsewhere takes what nodes have told others who share it with the client. Those may have come to another cluster
// before it, or still be at the former one.
func (l *ledger) seenElsewhere(at Moment) {
	if l.cluster == 0 {
		l.cluster, l.effects.Cluster = at.Cluster, at.Cluster
	}
	if at.Cluster == l.cluster {
		l.effects.Seen, l.effects.Stamp = max(l.effects.Seen, at.Seen), max(l.effects.Stamp, at.Stamp)
	}
}

// watchAnew has all watches begin anew. The node has none of them yet. Lasting ones are told that events are lost once
// it has them: what the application reads then misses no change. One-shot ones end: whether what they wait for has
// happened cannot be told from stamps of another cluster.
func (l *ledger) watchAnew() {
	if l.forest == nil {
		return
	}
	w := &l.forest.watches
	w.on, w.told, w.pending, w.owing, w.back = nil, 0, 0, 0, nil
	for _, e := range w.sorted() {
		*e = watched{spec: e.spec, subs: e.subs, news: e.news, last: e.last, anew: e.anew || e.placed || e.owed}
		if e.spec.Kind.OneShot() {
			l.endWatches(e, session.ErrClusterChanged)
		}
	}
}
