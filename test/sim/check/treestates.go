package check

import (
	"cmp"
	"slices"

	"holdfast/test/model/plain"
	"holdfast/tree"
)

// treeStates are the tree at each stamp.
type treeStates struct {
	paths map[string][]version
	// below are all paths that ever existed just below a path, owned all that a session ever owned.
	below map[string]map[string]bool
	owned map[uint64]map[string]bool
}

// version is the state of a path from a stamp on; nil for no entry.
type version struct {
	from tree.Stamp
	node *plain.Node
}

func newTreeStates() *treeStates {
	return &treeStates{
		paths: make(map[string][]version), below: make(map[string]map[string]bool), owned: make(map[uint64]map[string]bool),
	}
}

// record records the state of the tree at a stamp.
func (p *treeStates) record(now *plain.Tree, stamp tree.Stamp) {
	for _, path := range now.Touched() {
		n, _ := now.Get(path)
		if p.paths[path] == nil {
			file(p.below, tree.Parent(path), path)
		}
		if n != nil && n.Stat.Owner != 0 {
			file(p.owned, n.Stat.Owner, path)
		}
		p.paths[path] = append(p.paths[path], version{stamp, n})
	}
}

func file[K comparable](in map[K]map[string]bool, under K, path string) {
	if in[under] == nil {
		in[under] = make(map[string]bool)
	}
	in[under][path] = true
}

// at returns what a path was after the command at a stamp; nil for nothing.
func (p *treeStates) at(path string, stamp tree.Stamp) *plain.Node {
	all := p.paths[path]
	n, _ := slices.BinarySearchFunc(all, stamp, func(v version, s tree.Stamp) int {
		if v.from <= s {
			return -1
		}
		return 1
	})
	if n == 0 {
		return nil
	}
	return all[n-1].node
}

// list returns the access list that decides about a path after the command at a stamp (P2 access lists).
func (p *treeStates) list(path string, stamp tree.Stamp) tree.ACL {
	for {
		if n := p.at(path, stamp); n != nil && n.ACL != nil {
			return n.ACL
		}
		path = tree.Parent(path)
	}
}

// children returns the names of a path's children after the command at a stamp, in their order.
func (p *treeStates) children(path string, stamp tree.Stamp) (names []string) {
	for one := range p.below[path] {
		if p.at(one, stamp) != nil {
			names = append(names, tree.Name(one))
		}
	}
	slices.Sort(names)
	return names
}

// ephemerals returns the paths of a session's ephemerals after the command at a stamp, those with fewer names first.
func (p *treeStates) ephemerals(owner uint64, stamp tree.Stamp) (paths []string) {
	for one := range p.owned[owner] {
		if n := p.at(one, stamp); n != nil && n.Stat.Owner == owner {
			paths = append(paths, one)
		}
	}
	slices.SortFunc(paths, func(a, b string) int {
		return cmp.Or(cmp.Compare(tree.Depth(a), tree.Depth(b)), cmp.Compare(a, b))
	})
	return paths
}
