package store_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/tree"
	"holdfast/tree/store"
)

func goOn() error { return nil }

// verified checks that a tree verifies, and that its digest is the one that was kept change by change.
func verified(t *rapid.T, r *store.Root, digest bag) {
	again := bag{}
	if err := r.Verify(again, everybody, goOn); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(again, digest) {
		t.Fatalf("the digest of %d things is that of %d", len(digest), len(again))
	}
}

// TestVerify: a verification names an owner that has ended, and ends on request.
func TestVerify(t *testing.T) {
	ops := []tree.Op{tree.Create{Path: "/lock", Kind: tree.Ephemeral}}
	for range 9_000 {
		ops = append(ops, tree.Create{Path: "/", Sequential: true, Kind: tree.Persistent})
	}
	built, _ := build(t, ops...)
	err := built.Freeze().Verify(bag{}, func(owner uint64) bool { return owner != 7 }, goOn)
	if err == nil || !strings.Contains(err.Error(), `"/lock": is ephemeral and has owner 0x7`) {
		t.Errorf("an owner that has ended: %v", err)
	}
	stop, calls := errors.New("stop"), 0
	err = built.Freeze().Verify(bag{}, everybody, func() error {
		calls++
		return stop
	})
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// TestVerifyPacesEveryWalk: a tree with a quota is walked twice, and its ephemerals once more. Each walk calls pace,
// and ends with the error of pace. Otherwise a scrub of a large tree occupies a processor for seconds, and no shutdown
// ends it.
func TestVerifyPacesEveryWalk(t *testing.T) {
	ops := []tree.Op{tree.Create{Path: "/zookeeper/quota/a/zookeeper_limits", Kind: tree.Persistent, Parents: true}}
	for range 9_000 {
		ops = append(ops, tree.Create{Path: "/", Sequential: true, Kind: tree.Ephemeral})
	}
	built, _ := build(t, ops...)
	stop := errors.New("stop")
	for last := 1; last <= 5; last++ {
		calls := 0
		err := built.Freeze().Verify(bag{}, everybody, func() error {
			if calls++; calls == last {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) || calls != last {
			t.Errorf("stopped at call %d of pace: %v after %d calls", last, err, calls)
		}
	}
}
