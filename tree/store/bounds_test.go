package store_test

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/tree"
	"holdfast/tree/store"
)

// refuses checks that a transaction is refused with a reason, and changes nothing.
func refuses(t *testing.T, built *store.Tree, at store.At, says string, ops ...tree.Op) {
	t.Helper()
	before := built.Len()
	o, changes := built.Do(at, tree.Transaction{Then: ops})
	if o.Refused == nil || !strings.Contains(o.Refused.Error(), says) {
		t.Errorf("got %v, want a refusal that says %q", o.Refused, says)
	}
	if built.Len() != before || len(changes) != 0 {
		t.Errorf("%d entries, %d before; told %v", built.Len(), before, changes)
	}
}

// TestBoundOfRemovals: the deletions of subtrees in one transaction have a bound together, so that no transaction keeps
// a node from applying for long (U2 weight). Entries with long paths count for more.
func TestBoundOfRemovals(t *testing.T) {
	const half = tree.MaxDeleteTree / 2
	built, at := build(t)
	var deletes []tree.Op
	for i := range 3 {
		parent := fmt.Sprintf("/%d", i)
		creates := []tree.Op{tree.Create{Path: parent, Kind: tree.Persistent}}
		for range half - 1 {
			creates = append(creates, tree.Create{Path: parent + "/", Sequential: true, Kind: tree.Persistent})
		}
		if o, _ := built.Do(at, tree.Transaction{Then: creates}); o.Refused != nil {
			t.Fatal(o.Refused)
		}
		deletes = append(deletes, tree.DeleteTree{Path: parent})
	}
	refuses(t, built, at, "a transaction deletes at most 7500 entries", deletes...)
	if o, _ := built.Do(at, tree.Transaction{Then: deletes[:2]}); o.Refused != nil {
		t.Error(o.Refused)
	}
	if o, _ := built.Do(at, tree.Transaction{Then: deletes[2:]}); o.Refused != nil || built.Len() != 3 {
		t.Errorf("%v, %d entries left", o.Refused, built.Len())
	}
	long := "/" + strings.Repeat("a", 2000)
	creates := []tree.Op{tree.Create{Path: long, Kind: tree.Persistent}}
	for range half / 2 {
		creates = append(creates, tree.Create{Path: long + "/", Sequential: true, Kind: tree.Persistent})
	}
	if o, _ := built.Do(at, tree.Transaction{Then: creates}); o.Refused != nil {
		t.Fatal(o.Refused)
	}
	refuses(t, built, at, "a transaction deletes at most 7500 entries", tree.DeleteTree{Path: long})
}

// TestBoundOfEphemerals: the weight of the ephemerals of a session is bounded, however long their paths are (U2).
func TestBoundOfEphemerals(t *testing.T) {
	for path, most := range map[string]int{"/a": tree.MaxEphemerals, "/" + strings.Repeat("a", 2036): 160_000 / 35} {
		built, at := build(t)
		for i := range most {
			op := tree.Create{Path: fmt.Sprintf("%s%05d", path, i), Kind: tree.Ephemeral}
			if o, _ := built.Do(at, tree.Transaction{Then: []tree.Op{op}}); o.Refused != nil {
				t.Fatalf("ephemeral %d: %v", i, o.Refused)
			}
		}
		refuses(t, built, at, "(LIMIT)", tree.Create{Path: path + "-one-more", Kind: tree.Ephemeral})
		if weight := built.OwnedWeight(at.Session); weight > tree.MaxOwnedWeight || weight < tree.MaxOwnedWeight-35 {
			t.Errorf("ephemerals weigh %d, want nearly %d", weight, tree.MaxOwnedWeight)
		}
		if weight := built.Freeze().OwnedWeight(at.Session); weight != built.OwnedWeight(at.Session) {
			t.Errorf("readers count %d, the writer %d", weight, built.OwnedWeight(at.Session))
		}
		if ended, _ := built.CloseSession(at, at.Session, nil); ended.Removed != most || built.OwnedWeight(at.Session) != 0 {
			t.Errorf("%d ephemerals went, and %d of weight are left", ended.Removed, built.OwnedWeight(at.Session))
		}
	}
}

// TestBoundOfWalks: the quotas that a transaction defines count a bounded number of entries together. To delete and
// make a quota again counts nothing, nor does the root's.
func TestBoundOfWalks(t *testing.T) {
	const children, levels = 700, 210
	built, at := build(t)
	deep := strings.Repeat("/a", levels)
	creates := []tree.Op{tree.Create{Path: deep, Kind: tree.Persistent, Parents: true}}
	for range children {
		creates = append(creates, tree.Create{Path: deep + "/", Sequential: true, Kind: tree.Persistent})
	}
	if o, _ := built.Do(at, tree.Transaction{Then: creates}); o.Refused != nil {
		t.Fatal(o.Refused)
	}
	var quotas []tree.Op
	for depth := range levels {
		quotas = append(quotas, tree.Create{
			Path: tree.QuotaPath + deep[:2*depth] + "/" + tree.QuotaLimitsName, Kind: tree.Persistent, Parents: true,
		})
	}
	refuses(t, built, at, "new quotas of a transaction count at most 100000 entries", quotas...)
	half := quotas[:levels/2]
	if o, _ := built.Do(at, tree.Transaction{Then: half}); o.Refused != nil {
		t.Fatal(o.Refused)
	}
	var again []tree.Op
	for _, op := range half {
		again = append(again, tree.Delete{Path: op.Target(), Version: tree.Any}, op)
	}
	if o, _ := built.Do(at, tree.Transaction{Then: append(again, again...)}); o.Refused != nil {
		t.Error(o.Refused)
	}
	counted := 0
	built.Quotas(func(q store.Quota) bool {
		counted++
		want := int64(children + levels - strings.Count(q.Path, "a") + 1)
		if q.Path == tree.Root {
			want++ // /zookeeper
		}
		if q.Used.Count != want {
			t.Errorf("%s has %d entries, want %d", q.Path, q.Used.Count, want)
		}
		return true
	})
	if counted != len(half) {
		t.Errorf("%d quotas, want %d", counted, len(half))
	}
}

// TestQuotaRefusals: a refusal names the quota, the limit and the value, and only hard limits refuse (P3 quotas).
func TestQuotaRefusals(t *testing.T) {
	limits := func(of, text string) tree.Op {
		return tree.Create{
			Path: tree.QuotaPath + of + "/" + tree.QuotaLimitsName, Data: []byte(text), Kind: tree.Persistent, Parents: true,
		}
	}
	child := tree.Create{Path: "/a/c", Data: []byte("12345"), Kind: tree.Persistent}
	built, at := build(t,
		tree.Create{Path: "/a/b", Data: []byte("123"), Kind: tree.Persistent, Parents: true},
		limits("/a", "count=1,bytes=1=;byteHardLimit=7"), limits("", "countHardLimit=5"))
	refuses(t, built, at, "create /a/c: quota of /a: byteHardLimit is 7, would be 8 (QUOTA)", child)
	refuses(t, built, at, "set /a/b: quota of /a: byteHardLimit is 7, would be 8 (QUOTA)",
		tree.Set{Path: "/a/b", Data: []byte("12345678"), Version: tree.Any})
	child.Data = nil
	if o, _ := built.Do(at, tree.Transaction{Then: []tree.Op{child}}); o.Refused != nil {
		t.Fatal(o.Refused)
	}
	child.Path = "/d"
	refuses(t, built, at, "create /d: quota of /: countHardLimit is 5, would be 6 (QUOTA)", child)
	if o, _ := built.Do(at, tree.Transaction{Then: []tree.Op{
		tree.Set{Path: "/a/b", Data: []byte("1234567"), Version: tree.Any},
		tree.Set{Path: tree.QuotaPath + "/a/" + tree.QuotaLimitsName, Data: []byte("byteHardLimit=2"), Version: tree.Any},
		tree.Set{Path: "/a/b", Data: []byte("123456"), Version: tree.Any}, // less, and still too much
	}}); o.Refused != nil {
		t.Error(o.Refused)
	}
	at.Principals = nil
	refuses(t, built, at, "only super writes quotas (NO_PERMISSION)", limits("/b", ""))
	refuses(t, built, at, "only super writes quotas (NO_PERMISSION)", tree.DeleteTree{Path: tree.QuotaPath + "/a"})
	built.SetLimits(tree.Limits{Ephemerals: 1, Children: 100, Bytes: tree.DefaultBytes, OpenQuotas: true})
	refuses(t, built, at, `quota.count: is "five": must be a number (RESERVED)`, limits("/b", "count=five"))
	if o, _ := built.Do(at, tree.Transaction{Then: []tree.Op{limits("/b", "")}}); o.Refused != nil {
		t.Error(o.Refused)
	}
}
