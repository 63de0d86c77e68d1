package store_test

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/tree"
	"holdfast/tree/store"
)

// FuzzRestore damages the records of a tree. They are refused, or make a tree that has these records and fits the plain
// rules, and on which anything can happen.
func FuzzRestore(f *testing.F) {
	long(f)
	f.Fuzz(rapid.MakeFuzz(damagedRecords))
}

// FuzzModel lets the fuzzing engine choose the history.
func FuzzModel(f *testing.F) {
	long(f)
	f.Fuzz(rapid.MakeFuzz(whateverHappens))
}

// long adds inputs that are long enough for a whole history: each choice uses eight bytes.
func long(f *testing.F) {
	f.Helper()
	for seed := range byte(4) {
		input := make([]byte, 16<<10)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(input)
		f.Add(input)
	}
}

func TestDamagedRecords(t *testing.T) { rapid.Check(t, damagedRecords) }

func damagedRecords(t *rapid.T) {
	at := store.At{Stamp: tree.StampAt(1, 1), L: time.Second, Principals: []tree.Principal{{Scheme: tree.Super}}}
	original := store.New(bag{}, tree.DefaultLimits(), at)
	for range rapid.IntRange(0, 15).Draw(t, "steps") {
		at.Stamp, at.Session = at.Stamp+1, rapid.Uint64Range(1, 2).Draw(t, "session")
		x := drawTransaction(t)
		if rapid.Bool().Draw(t, "quota") {
			x = drawQuota(t)
		}
		original.Do(at, x)
	}
	records := recordsOf(original.Freeze())
	for range rapid.IntRange(0, 3).Draw(t, "damages") {
		records = damaged(t, records)
	}
	has, digest, err := restored(records, func(owner uint64) bool { return owner <= 2 })
	if err != nil {
		return
	}
	if got := recordsOf(has.Freeze()); !reflect.DeepEqual(got, records) {
		t.Fatalf("records %+v, want %+v", got, records)
	}
	want := plainOf(records)
	same(t, &has.Root, want)
	verified(t, has.Freeze(), digest)
	for _, owner := range []uint64{1, 2} {
		at.Stamp++
		has.ExpireSession(at, owner, nil)
		want.end(at, owner, true)
	}
	at.L += tree.MaxTTL
	for _, due := range has.Due(at.L, 1000) {
		has.Reap(at, due)
	}
	want.reap(at)
	same(t, &has.Root, want)
	if entries := len(want.nodes); len(digest) != entries+len(want.quotas()) {
		t.Fatalf("the digest has %d things; there are %d entries and %d quotas", len(digest), entries, len(want.quotas()))
	}
}

// damaged changes one thing of the records.
func damaged(t *rapid.T, records []store.Record) []store.Record {
	i := rapid.IntRange(0, len(records)-1).Draw(t, "record")
	other := rapid.IntRange(0, len(records)-1).Draw(t, "other")
	one := &records[i]
	switch rapid.IntRange(0, 15).Draw(t, "damage") {
	case 0:
		if len(records) > 1 {
			return append(records[:i:i], records[i+1:]...)
		}
	case 1:
		return append(records[:i+1:i+1], records[i:]...)
	case 2:
		one.Path = rapid.SampledFrom(append(paths, "", "a", "/a/", records[other].Path+"/x")).Draw(t, "path")
	case 3:
		one.Children = uint32(int(one.Children) + rapid.IntRange(-2, 2).Draw(t, "children"))
	case 4:
		one.Creates = rapid.Uint64().Draw(t, "creates")
	case 5:
		one.Kind = tree.Kind(rapid.IntRange(0, 7).Draw(t, "kind"))
	case 6:
		one.Owner = rapid.Uint64Range(0, 3).Draw(t, "owner")
	case 7:
		one.LifeMS = rapid.Int64().Draw(t, "life")
	case 8:
		one.DueMS = rapid.Int64().Draw(t, "due")
	case 9:
		one.Version = rapid.Int64().Draw(t, "version")
	case 10:
		one.ACLVersion = rapid.Int64().Draw(t, "ACL version")
	case 11:
		one.Created = tree.Stamp(rapid.Uint64().Draw(t, "created"))
	case 12:
		one.Modified = tree.Stamp(rapid.Uint64().Draw(t, "modified"))
	case 13:
		one.Data = rapid.SampledFrom([][]byte{nil, {}, []byte("count=0"), []byte("x")}).Draw(t, "data")
	case 14:
		permissions := tree.Permissions(rapid.Byte().Draw(t, "permissions"))
		one.ACL = tree.ACL{{Permissions: permissions, Scheme: tree.World, ID: "anyone"}}
	default:
		records[i], records[other] = records[other], records[i]
	}
	return records
}

// plainOf returns the plain tree that records describe.
func plainOf(records []store.Record) *plain {
	p := &plain{nodes: map[string]*node{}, limit: tree.DefaultLimits()}
	for _, r := range records {
		p.nodes[r.Path] = &node{
			data: r.Data, created: r.Created, modified: r.Modified, children: r.ChildrenModified, creates: int64(r.Creates),
			version: r.Version, aclVersion: r.ACLVersion, owner: r.Owner, kind: r.Kind, life: r.LifeMS, due: r.DueMS, acl: r.ACL,
		}
	}
	return p
}
