package client

import (
	"strings"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/transport/wire"
	"holdfast/tree"
)

func (s *fakeStream) add(spec tree.WatchSpec) {
	if s.watches == nil {
		s.watches = make(map[tree.WatchSpec]bool)
	}
	s.watches[spec] = true
}

// watch adds watches, and delivers missed events to restored watches (V4 resumed watches).
func (f *fakeTree) watch(s *fakeStream, a tree.Addition) {
	mine := &fakeStream{watches: make(map[tree.WatchSpec]bool)}
	for _, spec := range a.Watches {
		s.add(spec)
		if spec.Kind != tree.WatchExists { // only the entry's present state counts
			mine.watches[spec] = true
		}
	}
	if a.Since == 0 {
		return
	}
	defer f.owed(s, a)
	if a.Since < f.start {
		s.push(&holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_Lost{Lost: &holdfastv1.Lost{Stamp: uint64(f.now())}},
		})
		return
	}
	for _, e := range f.log {
		if e.Stamp > a.Since {
			created := e.Kind == tree.EntryCreated && s.watches[tree.WatchSpec{Path: e.Path, Kind: tree.WatchExists}]
			s.tellIf(mine.matches(e) || created, e)
		}
	}
}

// owed delivers the fate of their entries to restored one-shots, unless an event has done so (V4).
func (f *fakeTree) owed(s *fakeStream, a tree.Addition) {
	for _, spec := range a.Watches {
		entry := f.entries[spec.Path]
		switch {
		case !spec.Kind.OneShot() || !s.watches[spec]:
		case spec.Kind == tree.WatchExists && entry != nil:
			s.tellIf(true, tree.Event{Kind: tree.EntryCreated, Path: spec.Path, Stamp: entry.stat.Created})
		case spec.Kind != tree.WatchExists && entry == nil:
			s.tellIf(true, tree.Event{Kind: tree.EntryDeleted, Path: spec.Path, Stamp: f.now()})
		}
	}
}

// matches reports whether a watch of the connection is for an event.
func (s *fakeStream) matches(e tree.Event) bool {
	for spec := range s.watches {
		same := spec.Path == e.Path
		switch spec.Kind {
		case tree.WatchPersistent:
			if same {
				return true
			}
		case tree.WatchRecursive:
			if e.Kind != tree.ChildrenChanged && (same || tree.Below(e.Path, spec.Path)) {
				return true
			}
		case tree.WatchData, tree.WatchExists:
			if same && e.Kind != tree.ChildrenChanged {
				return true
			}
		case tree.WatchChild:
			if same && (e.Kind == tree.ChildrenChanged || e.Kind == tree.EntryDeleted) {
				return true
			}
		}
	}
	return false
}

// tellIf delivers an event that matches, and ends the one-shots that it fires.
//
//nolint:revive // flag-parameter: the condition reads better at the call
func (s *fakeStream) tellIf(matches bool, e tree.Event) {
	if !matches {
		return
	}
	for spec := range s.watches {
		one := &fakeStream{watches: map[tree.WatchSpec]bool{spec: true}}
		if spec.Kind.OneShot() && one.matches(e) {
			delete(s.watches, spec)
		}
	}
	s.push(&holdfastv1.ServerMessage{
		Message: &holdfastv1.ServerMessage_Events{Events: wire.EventsProto([]tree.Event{e})},
	})
}

// change changes the tree like another client, and notifies the watches.
func (c *fakeCluster) change(ops ...tree.Op) tree.Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tree.index++
	before := len(c.tree.log)
	result := c.tree.apply(tree.NumberedWrite{Transaction: tree.Transaction{Then: ops}}, 0)
	if result.Outcome.Refused != nil {
		c.t.Errorf("change: %v", result.Outcome.Refused)
	}
	c.tree.took = c.tree.took[:len(c.tree.took)-1]
	c.tellEvents(before)
	return result.Stamp
}

// tellEvents delivers the events from one on to all connections. The caller holds mu.
func (c *fakeCluster) tellEvents(from int) {
	for _, n := range c.nodes {
		for s := range n.streams {
			for _, e := range c.tree.log[from:] {
				s.tellIf(s.matches(e), e)
			}
		}
	}
}

// taken returns the writes that used their numbers, in that order.
func (c *fakeCluster) taken() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.tree.took, ", ")
}
