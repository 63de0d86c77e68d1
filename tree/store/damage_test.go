package store

import (
	"strings"
	"testing"
	"time"

	"holdfast/tree"
)

type nothing struct{}

func (nothing) Add([]byte)    {}
func (nothing) Remove([]byte) {}

// TestVerifyFindsDamage: what does not go through put and drop is found (I16 counts).
func TestVerifyFindsDamage(t *testing.T) {
	changed := func(r *Root, path string, how func(*entry)) {
		e := *r.get(keyOf(path))
		how(&e)
		r.entries.Set(keyOf(path), &e)
	}
	for says, damage := range map[string]func(r *Root){
		`"/a" has 3 children, and says 2`: func(r *Root) { changed(r, "/a", func(e *entry) { e.children-- }) },
		`and say 9`:                       func(r *Root) { changed(r, "/a/plain", func(e *entry) { e.children++ }) },
		`"/a/lock": is below an entry of kind lock-delay`: func(r *Root) {
			changed(r, "/a", func(e *entry) { e.kind = tree.InLockDelay })
		},
		`"/" has 1 children, and says 2`: func(r *Root) { r.entries.Delete(keyOf("/a")) },
		`"/a/plain": is persistent and has owner 0x9`: func(r *Root) {
			changed(r, "/a/plain", func(e *entry) { e.owner = 9 })
		},
		`is not in the index of owner 0x7`:                    func(r *Root) { r.owned.Delete(numbered(7, keyOf("/a/lock"))) },
		`owners' index has 2 entries, want 1`:                 func(r *Root) { r.owned.Set(numbered(8, keyOf("/a")), struct{}{}) },
		`is not in the index of entries that end at 61000 ms`: func(r *Root) { r.dueSoon.Delete(numbered(expiringTurn+61_000, keyOf("/a/ttl"))) },
		`ending entries has 2 entries, want 1`:                func(r *Root) { r.dueSoon.Set(numbered(1, keyOf("/a")), struct{}{}) },
		`the quota of "/a" is`: func(r *Root) {
			q, _ := r.quotas.Get("/a")
			q.Used.Bytes++
			r.quotas.Set("/a", q)
		},
		`owns 1 entries of weight 4, and 1 of weight 5 are counted`: func(r *Root) {
			r.ephemerals.Set(7, ephemerals{count: 1, weight: 5})
		},
		`are counted for 2 sessions, want 1`: func(r *Root) { r.ephemerals.Set(8, ephemerals{count: 1, weight: 4}) },
		`bytes, and 7 are counted`:           func(r *Root) { r.bytes = 7 },
		`there are 0 quotas, want 1`:         func(r *Root) { r.quotas.Delete("/a") },
	} {
		at := At{Stamp: tree.StampAt(1, 1), L: time.Second, Session: 7, Principals: []tree.Principal{{Scheme: tree.Super}}}
		built := New(nothing{}, tree.DefaultLimits(), at)
		if o, _ := built.Do(at, tree.Transaction{Then: []tree.Op{
			tree.Create{Path: "/a/lock", Kind: tree.Ephemeral, Parents: true},
			tree.Create{Path: "/a/ttl", Kind: tree.Expiring, TTL: time.Minute},
			tree.Create{Path: "/a/plain", Kind: tree.Persistent},
			tree.Create{Path: "/zookeeper/quota/a/zookeeper_limits", Kind: tree.Persistent, Parents: true},
		}}); o.Refused != nil {
			t.Fatal(o.Refused)
		}
		r := built.Freeze()
		verify := func() error {
			return r.Verify(nothing{}, func(uint64) bool { return true }, func() error { return nil })
		}
		if err := verify(); err != nil {
			t.Fatal(err)
		}
		damage(r)
		if err := verify(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error that says %q", err, says)
		}
	}
}
