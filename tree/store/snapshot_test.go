package store_test

import (
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/tree"
	"holdfast/tree/store"
)

func everybody(uint64) bool { return true }

// restored returns the tree that the records make, and its digest.
func restored(records []store.Record, alive func(uint64) bool) (*store.Tree, bag, error) {
	digest := bag{}
	r := store.NewRestorer(digest, tree.DefaultLimits(), alive)
	for _, one := range records {
		if err := r.Add(one); err != nil {
			return nil, nil, err
		}
	}
	t, err := r.Tree()
	return t, digest, err
}

func recordsOf(r *store.Root) (all []store.Record) {
	r.Records(func(one store.Record) bool {
		all = append(all, one)
		return true
	})
	return all
}

// TestRestore: a tree that is made of the records of another one has its digest, and behaves the same from then on.
func TestRestore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := store.At{Stamp: tree.StampAt(1, 1), L: time.Second, Session: 1}
		digest := bag{}
		original := store.New(digest, tree.DefaultLimits(), at)
		steps := func(label string, trees ...*store.Tree) {
			for range rapid.IntRange(0, 30).Draw(t, label) {
				at.Stamp++
				at.L += 20 * time.Second
				at.Session = rapid.Uint64Range(1, 2).Draw(t, "session")
				x := drawTransaction(t)
				if at.Principals = nil; rapid.Bool().Draw(t, "quota") {
					x, at.Principals = drawQuota(t), []tree.Principal{{Scheme: tree.Super}}
				}
				ends := rapid.IntRange(0, 9).Draw(t, "ends") == 0
				for _, one := range trees {
					if one.Do(at, x); ends {
						one.ExpireSession(at, at.Session, nil)
					}
					for _, due := range one.Due(at.L, 10) {
						one.Reap(at, due)
					}
				}
			}
		}
		steps("before", original)
		replica, has, err := restored(recordsOf(original.Freeze()), everybody)
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(has, digest) {
			t.Fatal("the digest is another one")
		}
		steps("after", original, replica)
		if !maps.Equal(has, digest) {
			t.Fatal("the digest is another one after further changes")
		}
	})
}

// TestRestoreRefuses: records that no tree has are refused, with what is wrong.
func TestRestoreRefuses(t *testing.T) {
	at := store.At{
		Stamp: tree.StampAt(1, 1), L: time.Second, Session: 7, Principals: []tree.Principal{{Scheme: tree.Super}},
	}
	original := store.New(bag{}, tree.DefaultLimits(), at)
	if o, _ := original.Do(at, tree.Transaction{Then: []tree.Op{
		tree.Create{Path: "/a/b", Kind: tree.Ephemeral, Parents: true},
		tree.Create{Path: "/a/c", Kind: tree.Expiring, TTL: time.Minute},
		tree.Create{Path: "/d", Kind: tree.Container},
		tree.Create{Path: "/zookeeper/quota/zookeeper_limits", Kind: tree.Persistent},
	}}); o.Refused != nil {
		t.Fatal(o.Refused)
	}
	place := func(all []store.Record, path string) *store.Record {
		for i := range all {
			if all[i].Path == path {
				return &all[i]
			}
		}
		t.Fatalf("no record of %s", path)
		return nil
	}
	without := func(all []store.Record, path string) (left []store.Record) {
		for _, one := range all {
			if one.Path != path {
				left = append(left, one)
			}
		}
		return left
	}
	for name, c := range map[string]struct {
		damage func(all []store.Record) []store.Record
		says   string
	}{
		"a path that is none": {func(all []store.Record) []store.Record {
			place(all, "/d").Path = "/d/"
			return all
		}, "empty name"},
		"out of order": {func(all []store.Record) []store.Record {
			all[1], all[2] = all[2], all[1]
			return all
		}, "comes after"},
		"twice": {func(all []store.Record) []store.Record { return append(all, all[len(all)-1]) }, "comes after"},
		"no parent": {func(all []store.Record) []store.Record {
			place(all, "/").Children--
			return without(all, "/a")
		}, "no parent"},
		"a child too few": {func(all []store.Record) []store.Record {
			return without(all, "/a/b")
		}, "has 1 children, and says 2"},
		"no child at all": {func(all []store.Record) []store.Record {
			return without(without(all, "/a/b"), "/a/c")
		}, "and say"},
		"a child too many": {func(all []store.Record) []store.Record {
			place(all, "/a").Children--
			return all
		}, "has 2 children, and says 1"},
		"more children than ever": {func(all []store.Record) []store.Record {
			place(all, "/a").Creates = 1
			return all
		}, "has had 1"},
		"an ephemeral without owner": {func(all []store.Record) []store.Record {
			place(all, "/a/b").Owner = 0
			return all
		}, "owner"},
		"an owner of something else": {func(all []store.Record) []store.Record {
			place(all, "/d").Owner = 7
			return all
		}, "owner"},
		"an owner that has ended": {func(all []store.Record) []store.Record {
			place(all, "/a/b").Owner = 8
			return all
		}, "does not exist"},
		"a child of an ephemeral": {func(all []store.Record) []store.Record {
			place(all, "/a").Kind, place(all, "/a").Owner = tree.Ephemeral, 7
			return all
		}, "ephemeral"},
		"a kind that is none": {func(all []store.Record) []store.Record {
			place(all, "/d").Kind = 9
			return all
		}, "kind 9"},
		"a negative time": {func(all []store.Record) []store.Record {
			place(all, "/d").DueMS = -1
			return all
		}, "ends at -1 ms"},
		"a negative version": {func(all []store.Record) []store.Record {
			place(all, "/d").ACLVersion = -1
			return all
		}, "negative version"},
		"a persistent entry that ends": {func(all []store.Record) []store.Record {
			place(all, "/a").DueMS = 5
			return all
		}, "is persistent and ends at 5 ms"},
		"a container that never ends": {func(all []store.Record) []store.Record {
			place(all, "/d").DueMS = 0
			return all
		}, "is container and ends at 0 ms"},
		"a time that is none": {func(all []store.Record) []store.Record {
			place(all, "/d").DueMS = math.MaxInt64
			return all
		}, "ends at"},
		"no TTL": {func(all []store.Record) []store.Record {
			place(all, "/a/c").LifeMS = 0
			return all
		}, "must be 1 to"},
		"too long a lock-delay": {func(all []store.Record) []store.Record {
			place(all, "/a/b").LifeMS = 60_001
			return all
		}, "must be 0 to 60000"},
		"a change before its creation": {func(all []store.Record) []store.Record {
			place(all, "/d").Modified--
			return all
		}, "before it was made"},
		"a stamp that is none": {func(all []store.Record) []store.Record {
			place(all, "/d").Modified = 1 << 63
			return all
		}, "stamp above"},
		"too much data": {func(all []store.Record) []store.Record {
			place(all, "/d").Data = make([]byte, tree.MaxRequest+1)
			return all
		}, "at most 1048575"},
		"a quota that is none": {func(all []store.Record) []store.Record {
			place(all, "/zookeeper/quota/zookeeper_limits").Data = []byte("count")
			return all
		}, "must be KEY=NUMBER"},
		"a root that grants nothing": {func(all []store.Record) []store.Record {
			all[0].ACL = nil
			return all
		}, "access list"},
		"a list that is none": {func(all []store.Record) []store.Record {
			place(all, "/d").ACL = tree.ACL{{Permissions: 99}}
			return all
		}, "permissions"},
		"no place for quotas": {func(all []store.Record) []store.Record {
			place(all, "/zookeeper").Children--
			return without(without(all, "/zookeeper/quota"), "/zookeeper/quota/zookeeper_limits")
		}, "no entry"},
		"nothing": {func([]store.Record) []store.Record { return nil }, "no entry"},
	} {
		t.Run(name, func(t *testing.T) {
			all := c.damage(recordsOf(original.Freeze()))
			if _, _, err := restored(all, func(owner uint64) bool { return owner == 7 }); err == nil ||
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want an error that says %q", err, c.says)
			}
		})
	}
}
