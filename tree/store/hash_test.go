package store

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/tree"
)

// measured counts the bytes that a digest is given.
type measured struct{ bytes int }

func (m *measured) Add(canonical []byte)    { m.bytes += len(canonical) }
func (m *measured) Remove(canonical []byte) { m.bytes += len(canonical) }

// Making children of an entry changes the entry each time. What that costs must not depend on the entry's data and
// list: one transaction could stop every node for longer than a node may stall (U2 weight).
func TestDataIsHashedOnlyWhenItIsSet(t *testing.T) {
	m := &measured{}
	has := New(m, tree.DefaultLimits(), At{Stamp: tree.StampAt(1, 1)})
	list := tree.ACL{}
	for i := range tree.MaxGrants {
		list = append(list, tree.Grant{
			Permissions: tree.All, Scheme: tree.Digest, ID: fmt.Sprint(i, strings.Repeat("x", 200)),
		})
	}
	list = append(list[:tree.MaxGrants-1], tree.Open()...)
	x := tree.Transaction{Then: []tree.Op{
		tree.Create{Path: "/p", Kind: tree.Persistent, Data: make([]byte, 1<<20-1), ACL: list},
	}}
	for i := range 1000 {
		x.Then = append(x.Then, tree.Create{Path: fmt.Sprint("/p/", i), Kind: tree.Persistent})
	}
	m.bytes = 0
	if outcome, _ := has.Do(At{Stamp: tree.StampAt(2, 1)}, x); outcome.Refused != nil {
		t.Fatal(outcome.Refused)
	}
	if m.bytes > 1000*1000 {
		t.Errorf("1,000 creates below an entry of 1 MiB hash %d bytes", m.bytes)
	}
	if e := has.get(keyOf("/p")); e.sum == nil || e.acl.sum == nil {
		t.Fatal("the entry has no hashes")
	} else {
		damaged := *e
		damaged.data = "x" + e.data[1:]
		if string(e.afresh().canonical(nil, "k")) != string(e.canonical(nil, "k")) ||
			string(damaged.afresh().canonical(nil, "k")) == string(damaged.canonical(nil, "k")) {
			t.Error("hashes that are made anew do not show damage")
		}
	}
}
