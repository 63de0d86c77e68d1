package watch_test

import (
	"strings"
	"testing"

	"holdfast/tree"
	"holdfast/watch"
)

// largeList returns an access list that no entry has yet, as large as one may be.
func largeList() *tree.ACL {
	list := tree.ACL{}
	for range tree.MaxGrants {
		id := strings.Repeat("n", tree.MaxACL/tree.MaxGrants-len(tree.X509))
		list = append(list, tree.Grant{Permissions: tree.Read, Scheme: tree.X509, ID: id})
	}
	return &list
}

// held counts the changes that a ring has, up to the entry at index.
func held(ring *watch.TreeRing, index uint64) (n int) {
	changes, _ := ring.Range(ring.Start(), watch.End(index))
	for range changes {
		n++
	}
	return n
}

// V3: what a ring keeps alive counts for its bounds. The access list of an entry that was made and removed is in the
// ring alone: without, a client that does so again and again fills the memory of each node. A list that many changes
// have counts once, so that it costs nobody the ring; and it counts again after it has left, and after a restore.
func TestV3AccessListsCountForTheRing(t *testing.T) {
	const most, chunk, each = 1 << 20, 4, 1000
	const room = most/(2*tree.MaxACL) + chunk // the tree has the texts of a list twice
	limits := watch.RingLimits{Items: 1024 * chunk, Bytes: most}
	ring := watch.NewTreeRing(limits, 0)
	index := uint64(0)
	appends := func(times int, list func() *tree.ACL) int {
		for range times {
			index++
			own := list()
			ring.Append(index, tree.Change{
				Stamp: tree.StampAt(index, 1), Kind: tree.Deleted, Path: "/a", ACL: own, Parent: &openList,
			})
		}
		return held(ring, index)
	}
	if n := appends(each, largeList); n < chunk || n > room {
		t.Errorf("holds %d lists of %d bytes in %d", n, tree.MaxACL, most)
	}
	shared := largeList()
	if n := appends(each, func() *tree.ACL { return shared }); n < each {
		t.Errorf("holds %d of %d changes that share a list", n, each)
	}
	if n := appends(each, func() *tree.ACL { return &openList }); n < 2*each {
		t.Errorf("holds %d of %d changes whose lists are shared", n, 2*each)
	}
	// What a ring held before a restore, it does not hold any more.
	var few []*tree.ACL
	for range room / 2 {
		few = append(few, largeList())
	}
	next := 0
	again := func() *tree.ACL { next++; return few[next%len(few)] }
	appends(len(few), again)
	index++
	ring.Reset(index)
	appends(room-len(few)+chunk, largeList)
	if n := appends(len(few), again); n > room {
		t.Errorf("after a restore, holds %d lists of %d bytes in %d", n, tree.MaxACL, most)
	}
}
