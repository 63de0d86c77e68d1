package history

import (
	"fmt"
	"strings"

	"holdfast/session"
	"holdfast/tree"
)

// Watched is what a watch was told. Its Name says which watch: no two of a run have the same.
type Watched struct {
	Name string
	// Specs are what it watches; none for a watch of sessions. On WatchBegan alone.
	Specs []tree.WatchSpec
	// As is whom its client is known as, besides as anyone. On WatchBegan alone.
	As []tree.Principal
	// Stamp is the one above which a watch hears of changes, of a LOST, or up to which it was told everything.
	Stamp tree.Stamp
	// Upper, on WatchBegan, is a stamp from which on the watch is certainly in place, if Stamp itself is not known to be
	// one; otherwise 0. On WatchHeard of a one-shot, the stamp up to which its client had been told everything when it was
	// seen to have fired.
	Upper tree.Stamp
	// Event is what was heard. Session is the kind of change that a watch of sessions heard of; the event's ID and
	// Attachment say of which session.
	Event   tree.Event
	Session session.ChangeKind
	// Newest is the newest index that any node had applied, on WatchLost.
	Newest uint64
}

// Grown is the watched part of the tree on a node after an entry.
type Grown struct {
	// Changes are what the entry changed there.
	Changes []tree.Change
	// Entries are what there is, as a reader would find it, in the order of their paths.
	Entries []Leaf
}

// Leaf is an entry of the tree without its data.
type Leaf struct {
	Path string
	Stat tree.Stat
}

// String returns what was told, without the name of the watch.
func (w *Watched) String() string {
	switch {
	case len(w.Specs) > 0:
		all := make([]string, len(w.Specs))
		for i, s := range w.Specs {
			all[i] = fmt.Sprintf("%s %s", s.Kind, s.Path)
		}
		return fmt.Sprintf("%s above %v", strings.Join(all, ", "), w.Stamp)
	case w.Event.Kind != 0:
		return fmt.Sprintf("%s %s at %v", w.Event.Path, w.Event.Kind, w.Event.Stamp)
	default:
		return w.Stamp.String()
	}
}

// String returns the entry with the stamps of its changes.
func (l Leaf) String() string {
	return fmt.Sprintf("%s (made %v, set %v, children %v, version %d)", l.Path, l.Stat.Created, l.Stat.Modified,
		l.Stat.ChildrenModified, l.Stat.Version)
}
