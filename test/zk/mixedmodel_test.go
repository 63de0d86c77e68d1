//go:build e2e

package zk

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"holdfast/tree"
	"holdfast/zk/jute"
)

// eventKind is the type of an event, as clients are told it.
type eventKind int32

const (
	created eventKind = 1 + iota
	deleted
	dataChanged
	childrenChanged
)

func eventText(kind eventKind, path string) string {
	return fmt.Sprintf("%s %s", [...]string{1: "created", "deleted", "data", "children"}[kind], path)
}

// change is a change of an entry.
type change struct {
	kind eventKind
	path string
	// number is that of its request: all changes of a multi have the same stamp.
	number int
}

func (c change) String() string { return eventText(c.kind, c.path) }

func (c change) op() jute.Op {
	return map[eventKind]jute.Op{created: jute.Create, deleted: jute.Delete, dataChanged: jute.SetData}[c.kind]
}

// record appends the record of the request that makes the change.
func (c change) record(e *jute.Encoder) {
	e.String(c.path)
	switch c.kind { //nolint:exhaustive // the children change with the entry
	case created:
		e.Buffer(nil)
		e.ACLs([]jute.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}})
		e.Int(0)
	case deleted:
		e.Int(-1)
	case dataChanged:
		e.Buffer([]byte("x"))
		e.Int(-1)
	}
}

// entries is a model of the tree: when each entry was changed last, and all changes.
type entries struct {
	data, children map[string]int
	all            []change
	requests       int
}

func newEntries() entries {
	return entries{data: map[string]int{"/": 0}, children: map[string]int{"/": 0}}
}

func (e *entries) is(path string) bool {
	_, is := e.data[path]
	return is
}

// since returns the changes after a request.
func (e *entries) since(request int) []change {
	at, _ := slices.BinarySearchFunc(e.all, request+1, func(c change, n int) int { return c.number - n })
	return e.all[at:]
}

// valid makes changes, all or none, and reports whether they were possible. It numbers them.
func (e *entries) valid(all []change) bool {
	data, children, before := maps.Clone(e.data), maps.Clone(e.children), len(e.all)
	e.requests++
	for i := range all {
		if !e.one(&all[i]) {
			e.data, e.children, e.all = data, children, e.all[:before]
			return false
		}
	}
	return true
}

func (e *entries) one(c *change) bool {
	parent, is := tree.Parent(c.path), e.is(c.path)
	c.number = e.requests
	switch {
	case c.kind == created && !is && e.is(parent):
		e.data[c.path], e.children[c.path], e.children[parent] = c.number, c.number, c.number
	case c.kind == deleted && is && !e.hasChildren(c.path):
		delete(e.data, c.path)
		delete(e.children, c.path)
		e.children[parent] = c.number
	case c.kind == dataChanged && is:
		e.data[c.path] = c.number
	default:
		return false
	}
	e.all = append(e.all, *c)
	return true
}

func (e *entries) hasChildren(path string) bool {
	for other := range e.data {
		if strings.HasPrefix(other, path+"/") {
			return true
		}
	}
	return false
}

// Lists of a setWatches2, in the order of its record.
const (
	dataList = iota
	existsList
	childList
	persistentList
	recursiveList
	watchLists
)

// everyKind is a model of a client's watches at a node: each kind is kept for itself.
type everyKind map[string][watchLists]bool

func newWatching() *watching {
	return &watching{theirs: newestKind{data: manager{}, child: manager{}}, ours: everyKind{}}
}

func (k everyKind) put(path string, list int, is bool) {
	kinds := k[path]
	kinds[list] = is
	k[path] = kinds
}

// listOf returns the list of the watch of a read: of an entry that is there, exists is the same as getData.
func listOf(op jute.Op, is bool) int {
	switch {
	case op == jute.GetChildren, op == jute.GetChildren2:
		return childList
	case is:
		return dataList
	default:
		return existsList
	}
}

// of returns the lists that a type of removeWatches means.
func (k everyKind) of(kind int32) []int {
	return map[int32][]int{
		jute.ChildrenWatcher: {childList},
		jute.DataWatcher:     {dataList, existsList},
		jute.AnyWatcher:      {dataList, existsList, childList, persistentList, recursiveList},
	}[kind]
}

func (k everyKind) has(path string, kind int32) bool {
	return slices.ContainsFunc(k.of(kind), func(list int) bool { return k[path][list] })
}

func (k everyKind) remove(path string, kind int32) {
	for _, list := range k.of(kind) {
		k.put(path, list, false)
	}
}

func (k everyKind) lists() (all [watchLists][]string) {
	for _, path := range mixedPaths {
		for list := range all {
			if k[path][list] {
				all[list] = append(all[list], path)
			}
		}
	}
	return all
}

// hearing are the lists on an event's own path that the event is for.
var hearing = map[eventKind][]int{
	created:         {existsList, persistentList, recursiveList},
	deleted:         {dataList, existsList, childList, persistentList, recursiveList},
	dataChanged:     {dataList, existsList, persistentList, recursiveList},
	childrenChanged: {childList, persistentList},
}

// tell reports whether the client is told of an event, and removes the one-shot watches that end with it.
func (k everyKind) tell(kind eventKind, path string) (is bool) {
	for _, list := range hearing[kind] {
		is = is || k[path][list]
		if list < persistentList {
			k.put(path, list, false)
		}
	}
	for at := tree.Parent(path); at != "" && kind != childrenChanged; at = tree.Parent(at) {
		is = is || k[at][recursiveList]
	}
	return is
}

// eventsOf are the events of a change, in their order.
func eventsOf(c change) []change {
	all := []change{c}
	if c.kind != dataChanged {
		all = append(all, change{kind: childrenChanged, path: tree.Parent(c.path), number: c.number})
	}
	return all
}

func (k everyKind) hear(c change) (all []string) {
	for _, e := range eventsOf(c) {
		if k.tell(e.kind, e.path) {
			all = append(all, eventText(e.kind, e.path))
		}
	}
	return all
}

// again brings watches back. A one-shot watch is owed one event if its entry has changed; lasting ones are told all
// that they have missed. Events come in the order of their changes, what is gone last; one event serves all watches.
func (k everyKind) again(lists [watchLists][]string, seen int, e *entries) (all []string) {
	var owed []change
	for list := dataList; list <= childList; list++ {
		for _, path := range lists[list] {
			event, is := judged(list, path, seen, e)
			if !is {
				k.put(path, list, true)
			} else if !slices.Contains(owed, event) {
				owed = append(owed, event)
			}
		}
	}
	lasting := everyKind{}
	for list := persistentList; list <= recursiveList; list++ {
		for _, path := range lists[list] {
			k.put(path, list, true)
			lasting.put(path, list, true)
		}
	}
	slices.SortStableFunc(owed, func(a, b change) int { return a.number - b.number })
	tell := func(before int) {
		for len(owed) > 0 && owed[0].number < before {
			all, owed = append(all, eventText(owed[0].kind, owed[0].path)), owed[1:]
		}
	}
	for _, missed := range e.since(seen) {
		for _, event := range eventsOf(missed) {
			if !lasting.tell(event.kind, event.path) {
				continue
			}
			tell(event.number)
			all = append(all, eventText(event.kind, event.path))
			owed = slices.DeleteFunc(owed, func(o change) bool { return o.path == event.path && o.ends(event.kind) })
		}
	}
	tell(math.MaxInt)
	return all
}

// ends reports whether what one-shot watches are owed is told by another event of their path.
func (c change) ends(kind eventKind) bool {
	switch c.kind { //nolint:exhaustive // one-shot watches are owed no others
	case created:
		return kind != childrenChanged
	case childrenChanged:
		return kind == childrenChanged || kind == deleted
	default:
		return kind == deleted || kind == dataChanged
	}
}

// judged returns what a one-shot watch is owed (W-07).
func judged(list int, path string, seen int, e *entries) (event change, is bool) {
	switch {
	case list == existsList:
		return change{created, path, e.data[path]}, e.is(path)
	case !e.is(path):
		return change{deleted, path, math.MaxInt - 1}, true
	case list == childList:
		return change{childrenChanged, path, e.children[path]}, e.children[path] > seen
	default:
		return change{dataChanged, path, e.data[path]}, e.data[path] > seen
	}
}
