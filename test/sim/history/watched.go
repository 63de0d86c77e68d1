package history

import (
	"fmt"
	"strings"

	"holdfast/session"
	"holdfast/tree"
)

// Watched is an event of a watch. Its Name identifies the watch in the run.
type Watched struct {
	Name string
	// Specs are the watched entries; none for a watch of sessions. Only on WatchBegan.
	Specs []tree.WatchSpec
	// As are the client's principals, besides anyone. Only on WatchBegan.
	As []tree.Principal
	// Stamp is the stamp above which a watch receives changes, of a LOST, or up to which the watch is complete.
	Stamp tree.Stamp
	// Upper, on WatchBegan, is a stamp from which on the watch is certainly in place, if Stamp itself may be too low;
	// otherwise 0. On WatchReceived of a one-shot, the stamp up to which its client knew everything when the one-shot
	// was seen to have fired.
	Upper tree.Stamp
	// Event is the received event. Session is the kind of change for a watch of sessions; the event's ID and Attachment
	// identify the session.
	Event   tree.Event
	Session session.ChangeKind
	// Newest is the newest index that any node had applied, on WatchLost.
	Newest uint64
}

// Grown is the watched part of the tree on a node after an entry.
type Grown struct {
	// Changes are the entry's changes there.
	Changes []tree.Change
	// Entries are the existing entries, as a reader would find them, in the order of their paths.
	Entries []Leaf
}

// Leaf is an entry of the tree without its data.
type Leaf struct {
	Path string
	Stat tree.Stat
}

// String returns the event, without the name of the watch.
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
