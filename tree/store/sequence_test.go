package store

import (
	"testing"
	"time"

	"holdfast/tree"
)

// D4: after the last number no sequential child is made, and children with other names are.
func TestTheLastSequenceNumber(t *testing.T) {
	at := At{Stamp: tree.StampAt(1, 1), L: time.Second, Session: 7}
	built := New(nothing{}, tree.DefaultLimits(), at)
	makes := func(path string, sequential bool) tree.Outcome {
		at.Stamp++
		o, _ := built.Do(at, tree.Transaction{Then: []tree.Op{
			tree.Create{Path: path, Kind: tree.Persistent, Sequential: sequential},
		}})
		return o
	}
	if o := makes("/a", false); o.Refused != nil {
		t.Fatal(o.Refused)
	}
	a := *built.get(keyOf("/a"))
	a.creates = tree.MaxSequence
	built.entries.Set(keyOf("/a"), &a)
	if o := makes("/a/n-", true); o.Refused != nil || o.Ops[0].Path != "/a/n-9999999999" {
		t.Errorf("the last number: %+v", o)
	}
	if o := makes("/a/n-", true); o.Refused == nil || o.Refused.Code != tree.OverLimit {
		t.Errorf("one number more: %+v, want LIMIT", o)
	}
	if o := makes("/a/other", false); o.Refused != nil {
		t.Errorf("a child without a number: %v", o.Refused)
	}
}
