package lane

import (
	"slices"

	"holdfast/tree"
	"holdfast/watch"
)

// comeBack adds watches that the client had on another connection, and tells what they are owed (V4). In portions, it
// may tell a part and add nothing: the rest is asked for when that has been taken out.
func comeBack(l *Lane, p *Pending, a *Answer) {
	c, since := p.conn, p.addition.Since
	r := watch.Resumption{From: since, Told: p.addition.Told, Watches: watches(&p.addition)}
	if p.addition.InPortions {
		a.More = l.table.Portion(c.watcher, r, l.node.Hub.changes, portionOf(l.limits.Feed), c.event)
	}
	if a.More != nil {
		return
	}
	if a.Lost, a.Err = l.table.Resume(c.watcher, r, l.shown.Root, l.node.Hub.changes, c.event); a.Lost {
		c.lost(since+1, l.now())
	}
}

// portionOf returns what counts the events of a portion, and reports whether one more fits. A portion takes half of
// what may be unsent of lasting watches (V6).
func portionOf(limits watch.FeedLimits) func(e tree.Event) bool {
	const part = 2
	left := watch.FeedLimits{Events: max(limits.Events/part, 1), Bytes: limits.Bytes / part}
	return func(e tree.Event) bool {
		left.Events--
		left.Bytes -= eventBytes + len(e.Path)
		return left.Events >= 0 && left.Bytes >= 0
	}
}

// withdraw takes watches out of the additions of a connection that wait: they were asked for before. Without, those of
// a client that gives them up while its node lags behind it are added all the same, and nobody removes them.
func withdraw(c *Conn, specs []tree.WatchSpec) {
	var gone map[tree.WatchSpec]bool
	for p := range c.loose {
		if p.kind != adding {
			continue
		}
		if gone == nil {
			gone = make(map[tree.WatchSpec]bool, len(specs))
			for _, w := range specs {
				gone[w] = true
			}
		}
		p.addition.Watches = slices.DeleteFunc(slices.Clone(p.addition.Watches), func(w tree.WatchSpec) bool {
			return gone[w] || gone[tree.WatchSpec{Path: w.Path}]
		})
	}
}
