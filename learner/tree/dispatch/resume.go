package dispatch

import (
	"slices"

	"holdfast/tree"
	"holdfast/watch"
)

// resumeWatches adds watches that the client had on another connection, and delivers the changes since then (V4 resumed
// watches). In portions, it may deliver a part and add nothing: the client requests the rest once it has that part.
func resumeWatches(d *Dispatcher, p *Request, a *Answer) {
	c, since := p.conn, p.addition.Since
	r := watch.Resumption{From: since, Delivered: p.addition.Delivered, Watches: watches(&p.addition)}
	if p.addition.InPortions {
		a.More = d.table.Portion(c.watcher, r, d.node.Hub.changes, portionOf(d.limits.Feed), c.event)
	}
	if a.More != nil {
		return
	}
	if a.Lost, a.Err = d.table.Resume(c.watcher, r, d.shown.Root, d.node.Hub.changes, c.event); a.Lost {
		c.lost(since+1, d.now())
	}
}

// portionOf returns a function that counts the events of a portion, and reports whether one more fits. A portion may
// use half of the bound of unsent events of lasting watches (V6 LOST).
func portionOf(limits watch.FeedLimits) func(e tree.Event) bool {
	const part = 2
	left := watch.FeedLimits{Events: max(limits.Events/part, 1), Bytes: limits.Bytes / part}
	return func(e tree.Event) bool {
		left.Events--
		left.Bytes -= eventBytes + len(e.Path)
		return left.Events >= 0 && left.Bytes >= 0
	}
}

// removeWaiting removes watches from the waiting additions of a connection, because the client requested the additions
// first. Otherwise a client that removes its watches while its node lags would get the watches all the same, for good.
func removeWaiting(c *Conn, specs []tree.WatchSpec) {
	var gone map[tree.WatchSpec]bool
	for p := range c.sessionless {
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
