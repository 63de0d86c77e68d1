package watch

import "fmt"

// The log and its consequences.

// change of the log has a place: twice the place of its entry, and its place there.
const places = 2 * maxLog

// at returns the change at a place and its stamp; a change of nothing if there is none.
func (s *State) at(place uint8) (change, stamp) {
	e := &s.Log[place/2]
	if place/2 >= s.Logged {
		return change{}, 0
	}
	position := 1 + place%2
	if e.One == 1 {
		position = 1
	}
	return e.Changes[place%2], stamp((place/2+1)<<2 | position)
}

// between calls f for the changes with stamps above after, up to and with through, in their order.
func (s *State) between(after, through stamp, f func(c change, at stamp)) {
	for place := range uint8(places) {
		if c, at := s.at(place); c.Kind != nothing && at > after && at <= through {
			f(c, at)
		}
	}
}

// view is the tree as of an index.
type view struct {
	exists, created, modified [2]stamp
	children                  stamp
}

// viewAt returns the tree after the entry at index. What is there at the beginning has stamps of 0.
func (x *step) viewAt(index uint8) (v view) {
	for path := range v.exists {
		v.exists[path] = stamp(x.scope.There >> path & 1)
	}
	x.between(0, end(index), func(c change, at stamp) {
		v.change(c, at)
	})
	return v
}

func (v *view) change(c change, at stamp) {
	switch c.Kind {
	case created:
		v.exists[c.Path], v.created[c.Path], v.modified[c.Path], v.children = 1, at, at, at
	case deleted:
		v.exists[c.Path], v.created[c.Path], v.modified[c.Path], v.children = 0, 0, 0, at
	case dataSet:
		v.modified[c.Path] = at
	}
}

// toggle is the change that makes an entry, or removes it.
func (v *view) toggle(path uint8) change {
	if v.exists[path] == 1 {
		return change{deleted, path}
	}
	return change{created, path}
}

// shape is a kind of log entry.
type shape uint8

// The kinds of log entries.
const (
	makeA shape = iota // A is created, or deleted if it exists
	setA               // A is set
	makeB              // B is created or deleted
	both               // one command creates or deletes A and B
	twice              // one command creates or deletes A, and then does the opposite
	apart              // two commands: one about A, the other about B
	ownA               // the client's write is about A; another of B follows in the entry if the scope has apart, too
	shapes
)

// commit appends an entry to the log.
func (x *step) commit(kind shape) bool {
	room := x.scope.Entries
	if x.scope.Shapes>>ownA&1 == 1 && x.ownIndex() == 0 && kind != ownA {
		room-- // for the client's write
	}
	if x.scope.Shapes>>kind&1 == 0 || x.Logged >= room {
		return false
	}
	v := x.viewAt(x.Logged)
	a, b := v.toggle(pathA), v.toggle(pathB)
	var e entry
	switch kind {
	case makeA:
		e.Changes[0] = a
	case setA:
		if v.exists[pathA] == 0 {
			return false
		}
		e.Changes[0] = change{dataSet, pathA}
	case makeB:
		e.Changes[0] = b
	case both:
		e.Changes, e.One = [2]change{a, b}, 1
	case twice:
		v.change(a, 0)
		e.Changes, e.One = [2]change{a, v.toggle(pathA)}, 1
	case apart:
		e.Changes = [2]change{a, b}
		if !x.Obeys(D2) {
			e.One = 1
		}
	case ownA:
		if x.Client.Accepted == 0 || x.ownIndex() != 0 {
			return false
		}
		e.Changes[0], e.Own = a, 1
		if x.scope.Shapes>>apart&1 == 1 {
			e.Changes[1] = b
		}
	case shapes:
	}
	x.Log[x.Logged] = e
	x.Logged++
	x.Say("entry %d: %v", x.Logged, e)
	return true
}

// ownIndex returns the index of the client's write, 0 if it is not in the log.
func (s *State) ownIndex() uint8 {
	for i := range s.Log[:s.Logged] {
		if s.Log[i].Own == 1 {
			return uint8(i + 1)
		}
	}
	return 0
}

func (e entry) String() string {
	text := e.Changes[0].String()
	if e.Own == 1 {
		text = "the client's write: " + text
	}
	if e.Changes[1].Kind == nothing {
		return text
	}
	return text + []string{"; ", " and "}[e.One] + e.Changes[1].String()
}

func (c change) String() string { return event{Kind: c.Kind, Path: c.Path}.what() }

// what describes an event.
func (e event) what() string {
	return []string{"A", "B", "the root"}[e.Path] + []string{
		"", " is created", " is deleted", " is set", " has other children",
	}[e.Kind]
}

func (e event) String() string { return fmt.Sprintf("%v at %v", e.what(), e.Stamp) }

func (s stamp) String() string {
	if s&3 == 3 {
		return fmt.Sprintf("the end of %d", s.index())
	}
	return fmt.Sprintf("%d.%d", s.index(), s&3)
}
