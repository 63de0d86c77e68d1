package sim

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"holdfast/test/sim/history"
	"holdfast/tree"
)

// plotPath is the part of the tree that watchers watch. beds are the paths in it that change most.
const plotPath = "/watched"

func beds() []string {
	all := []string{plotPath}
	for _, bed := range []string{plotPath + "/a", plotPath + "/b"} {
		all = append(all, bed)
		for i := range 3 {
			all = append(all, fmt.Sprintf("%s/%d", bed, i))
		}
	}
	return append(all, plotPath+"/a/0/deep")
}

// plot is a node's applied state of the watched part of the tree.
type plot struct {
	mu sync.Mutex
	// recorded are the indexes whose changes a node has recorded, newest is the newest index that a node has applied.
	// guarded by mu
	recorded map[uint64]bool
	newest   uint64
}

// apply notes an index that a node has applied. first reports whether no node has recorded its changes.
func (p *plot) apply(index uint64, changes bool) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest = max(p.newest, index)
	first = changes && !p.recorded[index]
	if first {
		p.recorded[index] = true
	}
	return first
}

// applied returns the newest index that a node has applied.
func (p *plot) applied() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest
}

// grew records what an entry did to the watched part of the tree, on the goroutine that applies.
func (p *process) grew(index uint64, now tree.Frozen, changes []tree.Change) {
	p.mu.Lock()
	over := p.over
	p.mu.Unlock()
	if over {
		return
	}
	var here []tree.Change
	for _, c := range changes {
		if c.Path == plotPath || tree.Below(c.Path, plotPath) {
			here = append(here, tree.Change{Stamp: c.Stamp, Kind: c.Kind, Path: c.Path})
		}
	}
	if !p.w.plot.apply(index, len(here) > 0) {
		return
	}
	var entries []history.Leaf
	view := now.As(everything())
	if stat, exists, err := view.Exists(plotPath); err != nil {
		p.w.failf("%s: read its own tree: %v", p.name, err)
	} else if exists {
		entries = p.w.leaves(view, []history.Leaf{{Path: plotPath, Stat: stat}})
	}
	slices.SortFunc(entries, func(a, b history.Leaf) int { return cmp.Compare(a.Path, b.Path) })
	p.w.record.Add(history.Event{
		Kind: history.TreeChanged, Who: p.name, Index: index, Grown: &history.Grown{Changes: here, Entries: entries},
	})
}

// leaves returns the last entry of above, and all entries below it.
func (w *world) leaves(view tree.View, above []history.Leaf) []history.Leaf {
	of := above[len(above)-1]
	if of.Stat.Children == 0 {
		return above
	}
	page, err := view.List(of.Path, tree.PageBounds{Entries: tree.MaxPageEntries, Bytes: tree.MaxPageBytes},
		tree.WithStats)
	if err != nil || page.More {
		w.failf("list %s of a node's own tree: %v", of.Path, err)
	}
	for _, c := range page.Children {
		above = w.leaves(view, append(above, history.Leaf{Path: tree.Join(of.Path, c.Name), Stat: c.Stat}))
	}
	return above
}
