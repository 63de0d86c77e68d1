package check

import (
	"cmp"
	"slices"

	"holdfast/test/sim/history"
)

// backups checks the contents of backups during the replay of the log.
type backups struct {
	judge
	// next are the unchecked backups, by their indexes.
	next []history.Event
}

func newBackups(j judge) *backups {
	all := slices.Clone(j.backedUp)
	slices.SortStableFunc(all, func(a, b history.Event) int { return cmp.Compare(a.Index, b.Index) })
	return &backups{j, all}
}

// before judges the backups of states before the entry at index: each has exactly the sessions and the entries that the
// log makes, and shows all writes that were answered before it was requested.
func (c *backups) before(index uint64, b *book) {
	for len(c.next) > 0 && c.next[0].Index < index {
		e := c.next[0]
		c.next = c.next[1:]
		c.checked("backup")
		if sessions, entries := len(b.alive), len(b.tree.Paths()); sessions != e.Backup.Sessions ||
			entries != e.Backup.Entries {
			c.misled(e, "backup", "it is of another state: the log makes %d sessions and %d entries", sessions, entries)
		}
		for _, w := range c.entries {
			if w.Kind == history.Wrote && w.At < e.Sent && w.Entry.Stamp.Index() > e.Index {
				c.misled(e, "backup", "it does not show what was answered before: %s", history.Line(w))
				break
			}
		}
	}
}
