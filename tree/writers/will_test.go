package writers_test

import (
	"strings"
	"testing"

	"holdfast/tree"
	"holdfast/tree/form"
	"holdfast/tree/writers"
)

// TestTheLargestWillFits: a will of the largest allowed size is accepted, in the form in which the state keeps it. A
// will of 64 KiB has 66 there.
func TestTheLargestWillFits(t *testing.T) {
	large := tree.Create{
		Path: "/a", Kind: tree.Expiring, TTL: tree.MaxTTL, Sequential: true, Parents: true, Data: make([]byte, 900),
	}
	var x tree.Transaction
	for range tree.MaxWillOps {
		x.Then = append(x.Then, large)
	}
	large.Data = make([]byte, len(large.Data)+tree.MaxWill-x.Size())
	x.Then[0] = large
	if err := tree.CheckWill(x); err != nil || x.Size() != tree.MaxWill {
		t.Fatalf("a will of %d bytes: %v", x.Size(), err)
	}
	var all []tree.Principal
	for range tree.MaxPrincipals {
		all = append(all, tree.Principal{Scheme: "digest", ID: strings.Repeat("a", tree.MaxPrincipal/16-len("digest"))})
	}
	if err := tree.CheckPrincipals(all); err != nil {
		t.Fatal(err)
	}
	data, err := form.AppendWill(nil, tree.KeptWill{Transaction: x, Principals: all})
	if err != nil {
		t.Fatal(err)
	}
	table := writers.New(bag{}, writers.DefaultLimits())
	if err = table.SetWill(1, "", writers.Will{Data: data}); err != nil {
		t.Errorf("%d bytes: %v", len(data), err)
	}
}
