package core

import (
	"slices"
	"testing"

	"holdfast/tree"
)

// V4: that an entry has gone, which a node tells a one-shot that comes back, is not for those that wait for the entry
// to come, nor for lasting ones. A deletion is for all.
func TestV4WhatHasGoneIsForThoseWhoHadIt(t *testing.T) {
	w := &watches{all: map[tree.WatchSpec]*watched{}, recursive: 1}
	for kind := tree.WatchData; kind <= tree.WatchRecursive; kind++ {
		spec := tree.WatchSpec{Path: "/a", Kind: kind}
		w.all[spec] = &watched{spec: spec}
	}
	for _, one := range []struct {
		what string
		at   tree.Stamp
		want []tree.WatchKind
	}{
		{"an entry that has gone", tree.StampAt(7, tree.MaxPosition), []tree.WatchKind{tree.WatchData, tree.WatchChild}},
		{"a deletion", tree.StampAt(7, 1), []tree.WatchKind{
			tree.WatchData, tree.WatchExists, tree.WatchChild, tree.WatchPersistent, tree.WatchRecursive,
		}},
	} {
		var got []tree.WatchKind
		for _, e := range w.matching(tree.Event{Path: "/a", Kind: tree.EntryDeleted, Stamp: one.at}) {
			got = append(got, e.spec.Kind)
		}
		if slices.Sort(got); !slices.Equal(got, one.want) {
			t.Errorf("%s is for watches %v, want %v", one.what, got, one.want)
		}
	}
}
