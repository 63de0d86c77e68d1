package check

import (
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// reads checks I13 for reads of the watched part of the tree: a read shows the tree of its stamp, and the stamps of a
// client with one request at a time never fall.
func (c watches) reads() {
	reported := make(map[string]tree.Stamp)
	for _, e := range c.views {
		if e.Kind != history.Viewed {
			continue
		}
		c.checked("I13 view")
		if want := c.tree.at(e.Entry.Path, e.Entry.Stamp); !want.shows(e.Entry.Exists, e.Entry.Stat) {
			c.misled(e, "I13", "at its stamp there was %v", want)
		}
		if e.Entry.Stamp < reported[e.Who] {
			c.misled(e, "I13", "received a stamp behind %v", reported[e.Who])
		}
		reported[e.Who] = max(reported[e.Who], e.Entry.Stamp)
	}
}

// mirrors checks I13 for mirrors: an entry in a mirror had this state at the mirror's stamp or later, is no older than
// its reader has waited for, and never goes back.
func (c watches) mirrors() {
	type shown struct{ mirror, path string }
	places := make(map[shown]int)
	for _, e := range c.views {
		if e.Kind != history.Mirrored {
			continue
		}
		c.checked("I13 mirror")
		if e.Entry.Stamp < e.Watched.Stamp {
			c.misled(e, "I13", "its reader has waited for %v", e.Watched.Stamp)
		}
		of := shown{e.Watched.Name, e.Entry.Path}
		place, found := c.tree.shownFrom(e.Entry, max(places[of], c.tree.place(e.Entry.Path, e.Entry.Stamp)))
		if !found {
			c.misled(e, "I13", "nothing of the kind was there at its stamp or later, nor after what the mirror showed before")
		}
		places[of] = place
	}
}

// shownFrom returns the number of a path's changes after which it has the shown state: place or more. It reports false
// if it never had. A mirror gets no events of children for their parents, so their part of the state may be older.
func (g *watchedTree) shownFrom(shown *history.Entry, place int) (int, bool) {
	all := g.paths[shown.Path]
	for n := place; n <= len(all); n++ {
		now := leaf{}
		if n > 0 {
			now = all[n-1]
		}
		if shown.Exists == now.there && (!now.there || now.like(shown.Stat)) {
			return n, true
		}
	}
	return place, false
}
