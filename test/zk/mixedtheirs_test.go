//go:build e2e

package zk

import (
	"holdfast/tree"
	"holdfast/zk/jute"
)

// mode is how ZooKeeper 3.8 keeps a watch.
type mode int

const (
	oneShot mode = 1 + iota
	persistent
	recursive
)

// manager is one of ZooKeeper's two lists of watches, as far as one client has some: the newest mode of each path.
type manager map[string]mode

// trigger reports whether the client has a watch for an event, and removes it if it is a one-shot.
func (m manager) trigger(kind eventKind, path string) (is bool) {
	for at := path; at != ""; at = tree.Parent(at) {
		switch how := m[at]; {
		case how == recursive:
			is = is || kind != childrenChanged
		case how != 0 && at == path:
			is = true
			if how == oneShot {
				delete(m, at)
			}
		}
	}
	return is
}

// newestKind is a model of a client's watches at ZooKeeper 3.8: one list for data and exists watches, one for
// children. Lasting watches are in both. A path has one mode in each list, the newest.
type newestKind struct{ data, child manager }

func (k newestKind) once(path string, list int) {
	if list == childList {
		k.child[path] = oneShot
		return
	}
	k.data[path] = oneShot
}

func (k newestKind) lasting(path string, how mode) { k.data[path], k.child[path] = how, how }

// of returns the lists that a type of removeWatches means.
func (k newestKind) of(kind int32) []manager {
	return map[int32][]manager{
		jute.ChildrenWatcher: {k.child}, jute.DataWatcher: {k.data}, jute.AnyWatcher: {k.child, k.data},
	}[kind]
}

func (k newestKind) has(path string, kind int32) bool {
	for _, m := range k.of(kind) {
		if m[path] != 0 {
			return true
		}
	}
	return false
}

func (k newestKind) remove(path string, kind int32) {
	for _, m := range k.of(kind) {
		delete(m, path)
	}
}

func (k newestKind) hear(c change) (all []string) {
	is := k.data.trigger(c.kind, c.path)
	if c.kind == deleted {
		is = k.child.trigger(c.kind, c.path) || is
	}
	if is {
		all = append(all, c.String())
	}
	if parent := tree.Parent(c.path); c.kind != dataChanged && k.child.trigger(childrenChanged, parent) {
		all = append(all, eventText(childrenChanged, parent))
	}
	return all
}

// again brings watches back: list by list, and nothing is told to lasting watches.
func (k newestKind) again(lists [watchLists][]string, seen int, e *entries) (all []string) {
	for list := dataList; list <= childList; list++ {
		for _, path := range lists[list] {
			if event, is := judged(list, path, seen, e); is {
				all = append(all, event.String())
				continue
			}
			k.once(path, list)
		}
	}
	for _, path := range lists[persistentList] {
		k.lasting(path, persistent)
	}
	for _, path := range lists[recursiveList] {
		k.lasting(path, recursive)
	}
	return all
}
