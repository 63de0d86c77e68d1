package check

import (
	"slices"
	"testing"

	"holdfast/session"
	"holdfast/test/model/plain"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

const quotaOfS = tree.QuotaPath + "/s/" + tree.QuotaLimitsName

// ann is the principal that the list of /s admits.
var ann = []tree.Principal{{Scheme: tree.Digest, ID: "ann:1"}}

// guarded is a correct log: a client may not read an entry, and a quota is full. The client got the refusals.
func guarded() []history.Event {
	k := &clerk{tree: openQuotas(plain.New(0))}
	l := k.entry(10)
	k.session(l, 1, session.Opened, 1, 11)
	l = k.entry(11)
	list := tree.ACL{{Permissions: tree.All, Scheme: tree.Digest, ID: "ann:1"}}
	k.write(l, 1, 1, 1, tagged(101, tree.Create{Path: "/s", Kind: tree.Persistent, Data: []byte("one"), ACL: list},
		tree.Create{Path: quotaOfS, Kind: tree.Persistent, Parents: true, Data: []byte("countHardLimit=1")}))
	n, _ := k.tree.Get("/s")
	k.found(11.1, 11.3, 11, history.Entry{Path: "/s", Exists: true, Data: "one", Stat: n.Shown(), As: ann})
	k.found(11.1, 11.3, 11, history.Entry{Path: "/s", Exists: true, Denied: true})
	k.events[len(k.events)-1].Entry.Stamp = 0 // a refusal of a read has none
	l = k.entry(12)
	k.write(l, 1, 1, 2, tagged(102, tree.Set{Path: "/s", Version: tree.Any, Data: []byte("two")})) // refused
	l = k.entry(13)
	k.principals = ann
	k.write(l, 1, 1, 3, tagged(103, tree.Set{Path: "/s", Version: tree.Any, Data: []byte("three")}))
	k.write(l, 2, 1, 4, tagged(104, tree.Create{Path: "/s/t", Kind: tree.Persistent})) // refused
	return k.events
}

// TestAccess breaks a log with decisions of I14, or the client's answers, in one way after the other.
func TestAccess(t *testing.T) {
	r := judgeLedger(guarded())
	if len(r.Violations) > 0 {
		t.Fatalf("a log in which nothing is wrong: %v", r.Violations)
	}
	for _, name := range []string{"I14 permission", "I14 quota", "I14 read", "I14 denied"} {
		if r.Checked[name] == 0 {
			t.Errorf("%s was not put to the test", name)
		}
	}
	for name, plant := range map[string]func(writes []*history.Write, found []*history.Entry){
		"a write took effect without permission": func(writes []*history.Write, _ []*history.Entry) {
			writes[2].Principals = nil
		},
		"a write was refused a permission that it had": func(writes []*history.Write, _ []*history.Entry) {
			writes[1].Principals = ann
		},
		"a create took effect over a quota": func(writes []*history.Write, _ []*history.Entry) {
			writes[3].Result.Outcome = tree.Outcome{Ops: make([]tree.OpOutcome, 1)}
		},
		"a read was shown what its client may not see": func(_ []*history.Write, found []*history.Entry) {
			found[0].As = nil
		},
		"a read was refused that was never kept from anything": func(_ []*history.Write, found []*history.Entry) {
			found[1].As = ann
		},
	} {
		h := guarded()
		var writes []*history.Write
		var found []*history.Entry
		for i := range h {
			switch h[i].Kind { //nolint:exhaustive // there are no others
			case history.Committed:
				for j := range h[i].Ledger.Writes {
					writes = append(writes, &h[i].Ledger.Writes[j])
				}
			case history.Found:
				found = append(found, h[i].Entry)
			}
		}
		plant(writes, found)
		if !slices.ContainsFunc(judgeLedger(h).Violations, func(v Violation) bool { return v.Invariant == "I14" }) {
			t.Errorf("%s: no I14", name)
		}
	}
}
