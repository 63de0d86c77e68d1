package check

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"holdfast/test/sim/history"
	"holdfast/tree"
)

// entries checks clients' writes and reads of the tree (I9 once, I12 no orphans, I13 no step back, I15 fences of
// docs/tree.md). The stamps of answered writes give their order. Each write has different data, and entries are never
// deleted.
type entries struct{ judge }

// line is everything known about one path.
type line struct {
	// wrote are the answered writes that took effect, in the order of their stamps. refused are the others.
	wrote, refused []history.Event
	looked         []history.Event
	// doubts are the data of writes without an answer.
	doubts map[string]bool
}

func (c entries) check() {
	c.stamps()
	c.sequences()
	lines := c.lines()
	for _, path := range slices.Sorted(maps.Keys(lines)) {
		l := lines[path]
		c.versions(l)
		c.refusals(l)
		for _, e := range l.looked {
			c.shown(l, e)
		}
	}
}

// lines files the events by path.
func (c entries) lines() map[string]*line {
	lines := make(map[string]*line)
	for _, e := range c.entries {
		l := lines[e.Entry.Path]
		if l == nil {
			l = &line{doubts: make(map[string]bool)}
			lines[e.Entry.Path] = l
		}
		switch {
		case e.Kind == history.WriteLost:
			l.doubts[e.Entry.Data] = true
		case e.Kind == history.TreeRead:
			l.looked = append(l.looked, e)
		case e.Entry.Refused != 0:
			l.refused = append(l.refused, e)
		default:
			l.wrote = append(l.wrote, e)
		}
	}
	for _, l := range lines {
		slices.SortFunc(l.wrote, byStamp)
	}
	return lines
}

func byStamp(a, b history.Event) int { return cmp.Compare(a.Entry.Stamp, b.Entry.Stamp) }

// stamps checks:
//
//   - I9: each answered write has a stamp of its own.
//   - I13: the stamps that a client with one request at a time receives never fall.
//   - R4: a linearizable read shows all that any client had received when it was sent.
func (c entries) stamps() {
	wrote, reported := make(map[tree.Stamp]history.Event), make(map[string]tree.Stamp)
	var highest []history.Event // each with a higher stamp than those before
	for _, e := range c.entries {
		if e.Kind == history.WriteLost {
			continue
		}
		stamp := e.Entry.Stamp
		if f, ok := wrote[stamp]; ok && e.Kind == history.Wrote {
			c.fail("I9", e.ID, e.At, "two writes have one stamp: %s; and %s", history.Line(f), history.Line(e))
		}
		if e.Kind == history.Wrote {
			c.checked("I9 stamp")
			wrote[stamp] = e
		}
		c.checked("I13 reported")
		if stamp < reported[e.Who] {
			c.fail("I13", e.ID, e.At, "reported stamp %v behind %v: %s", stamp, reported[e.Who], history.Line(e))
		}
		reported[e.Who] = stamp
		if e.Entry.Linearizable {
			c.linearizable(toldBefore(highest, e.Sent), e)
		}
		if n := len(highest); n == 0 || highest[n-1].Entry.Stamp < stamp {
			highest = append(highest, e)
		}
	}
}

// toldBefore returns the highest stamp that a client had received before a moment.
func toldBefore(highest []history.Event, at time.Duration) tree.Stamp {
	n, _ := slices.BinarySearchFunc(highest, at, func(e history.Event, at time.Duration) int {
		return cmp.Compare(e.At, at)
	})
	if n == 0 {
		return 0
	}
	return highest[n-1].Entry.Stamp
}

func (c entries) linearizable(least tree.Stamp, e history.Event) {
	c.checked("R4 tree")
	if e.Entry.Stamp < least {
		c.fail("R4", e.ID, e.At, "a linearizable read is older than %v, which a client had received before: %s", least,
			history.Line(e))
	}
}

// sequences checks I15: of entries that the state has numbered, the later one has the higher number.
func (c entries) sequences() {
	var all []history.Event
	for _, e := range c.entries {
		if e.Kind == history.Wrote && e.Entry.Sequential && e.Entry.Refused == 0 {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, byStamp)
	for i := 1; i < len(all); i++ {
		c.checked("I15 sequence")
		if all[i].Entry.Path <= all[i-1].Entry.Path {
			c.fail("I15", all[i].ID, all[i].At, "numbered no higher than an earlier entry: %s; behind %s",
				history.Line(all[i]), history.Line(all[i-1]))
		}
	}
}

// versions checks I9: each write that took effect raised the version by one, and besides them only writes in doubt did.
func (c entries) versions(l *line) {
	missing := 0
	for i, e := range l.wrote {
		before := int64(-1)
		if i > 0 {
			before = l.wrote[i-1].Entry.Stat.Version
		}
		raised := e.Entry.Stat.Version - before
		missing += int(raised) - 1
		c.checked("I9 version")
		switch {
		case e.Entry.Stat.Modified != e.Entry.Stamp:
			c.fail("I9", e.ID, e.At, "the answer has not the write's own stamp: %s", history.Line(e))
		case e.Entry.Expected != tree.Any && e.Entry.Stat.Version != e.Entry.Expected+1:
			c.fail("I9", e.ID, e.At, "a set of version %d took effect: %s", e.Entry.Expected, history.Line(e))
		case raised < 1:
			c.fail("I9", e.ID, e.At, "version %d behind version %d: %s", e.Entry.Stat.Version, before, history.Line(e))
		case missing > len(l.doubts):
			c.fail("I9", e.ID, e.At, "%d versions were not written, and %d writes are in doubt: %s", missing,
				len(l.doubts), history.Line(e))
		}
	}
}

// refusals checks I9: a set is refused for its version only if the entry had another version. Writes in doubt may have
// changed it.
func (c entries) refusals(l *line) {
	for _, e := range l.refused {
		last, ok := l.last(e.Entry.Stamp)
		if e.Entry.Refused != tree.BadVersion || !ok || len(l.doubts) > 0 {
			continue
		}
		c.checked("I9 refused")
		if last.Entry.Stat.Version == e.Entry.Expected {
			c.fail("I9", e.ID, e.At, "refused, although the entry has version %d: %s", e.Entry.Expected, history.Line(e))
		}
	}
}

// last returns the last answered write up to a stamp.
func (l *line) last(stamp tree.Stamp) (history.Event, bool) {
	n, found := slices.BinarySearchFunc(l.wrote, stamp, func(e history.Event, s tree.Stamp) int {
		return cmp.Compare(e.Entry.Stamp, s)
	})
	if found {
		n++
	}
	if n == 0 {
		return history.Event{}, false
	}
	return l.wrote[n-1], true
}

// shown checks a read: it shows the last write up to its stamp (I13 no step back), or a later write in doubt; an
// ephemeral as long as its owner lives (I12 no orphans).
func (c entries) shown(l *line, e history.Event) {
	last, wrote := l.last(e.Entry.Stamp)
	if !e.Entry.Exists {
		if wrote {
			c.absent(last, e)
		}
		return
	}
	c.checked("I13 shown")
	modified := e.Entry.Stat.Modified
	switch {
	case modified > e.Entry.Stamp:
		c.fail("I13", e.ID, e.At, "shows a change above its stamp: %s", history.Line(e))
	case wrote && modified < last.Entry.Stamp:
		c.fail("I13", e.ID, e.At, "shows an older change than %s: %s", history.Line(last), history.Line(e))
	case wrote && modified == last.Entry.Stamp && e.Entry.Data != last.Entry.Data:
		c.fail("I13", e.ID, e.At, "shows other data than %s: %s", history.Line(last), history.Line(e))
	case (!wrote || modified > last.Entry.Stamp) && !l.doubts[e.Entry.Data]:
		c.fail("I9", e.ID, e.At, "shows data that no write in doubt has: %s", history.Line(e))
	}
	owner := c.lives[e.ID]
	if owner != nil && owner.end != nil && owner.end.Index <= e.Entry.Stamp.Index() {
		c.fail("I12", e.ID, e.At, "shows an ephemeral whose owner ended at %d: %s", owner.end.Index, history.Line(e))
	}
}

// absent checks a read that did not find a written entry: an ephemeral whose owner has ended.
func (c entries) absent(last, e history.Event) {
	owner := c.lives[e.ID]
	c.checked("I12 absent")
	if owner == nil || owner.end == nil || owner.end.Index > e.Entry.Stamp.Index() {
		c.fail("I12", e.ID, e.At, "does not show %s: %s", history.Line(last), history.Line(e))
	}
}
