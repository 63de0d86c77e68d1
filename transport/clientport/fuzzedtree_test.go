package clientport

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/wire"
	"holdfast/tree"
)

func numbering(number, acked uint64) *holdfastv1.Numbering {
	return wire.NumberingProto(porttest.Grant(7).Token, number, acked)
}

// treeRequestsOf returns requests of a call of TreeService. The first one is valid.
func treeRequestsOf(name string) []proto.Message {
	options := &holdfastv1.ReadOptions{Seen: 1 << 63, Linearizable: true}
	both := &holdfastv1.ReadOptions{AllowStale: true, Linearizable: true}
	ugly := "/" + strings.Repeat("\x01", 2000)
	anyone := &holdfastv1.AccessList{Grants: []*holdfastv1.Grant{{Permissions: 31, Scheme: "world", Id: "anyone"}}}
	own := &holdfastv1.AccessList{Grants: []*holdfastv1.Grant{{Permissions: 31, Scheme: "auth"}}}
	create := &holdfastv1.Create{Path: "/a", Data: []byte("d"), Acl: anyone}
	ops := []*holdfastv1.Op{
		{Op: &holdfastv1.Op_Create{Create: create}}, {Op: &holdfastv1.Op_Delete{Delete: &holdfastv1.Delete{Path: "/a"}}},
	}
	return map[string][]proto.Message{
		holdfastv1.TreeService_Create_FullMethodName: {
			&holdfastv1.CreateRequest{Numbering: numbering(2, 1), Create: create},
			&holdfastv1.CreateRequest{Numbering: numbering(2, 2), Create: create},
			&holdfastv1.CreateRequest{Numbering: numbering(2, 1), Create: &holdfastv1.Create{Path: ugly}},
			&holdfastv1.CreateRequest{Numbering: numbering(1, 0), Create: &holdfastv1.Create{Path: "/a", Acl: own}},
			&holdfastv1.CreateRequest{Numbering: numbering(1, 0), Create: &holdfastv1.Create{
				Path: "/a", Kind: holdfastv1.EntryKind_ENTRY_KIND_EXPIRING, Ttl: porttest.BadDuration(),
			}},
			&holdfastv1.CreateRequest{Numbering: numbering(1, 0), Create: &holdfastv1.Create{
				Path: "/a", LockDelay: durationpb.New(1), Kind: holdfastv1.EntryKind_ENTRY_KIND_EPHEMERAL,
			}},
		},
		holdfastv1.TreeService_Delete_FullMethodName: {
			&holdfastv1.DeleteRequest{Numbering: numbering(1, 0), Delete: &holdfastv1.Delete{Path: "/a"}},
			&holdfastv1.DeleteRequest{Numbering: numbering(0, 0), Delete: &holdfastv1.Delete{Path: "/a"}},
		},
		holdfastv1.TreeService_DeleteTree_FullMethodName: {
			&holdfastv1.DeleteTreeRequest{Numbering: numbering(1, 0), DeleteTree: &holdfastv1.DeleteTree{Path: "/a"}},
			&holdfastv1.DeleteTreeRequest{Numbering: numbering(1, 0)},
		},
		holdfastv1.TreeService_Set_FullMethodName: {
			&holdfastv1.SetRequest{Numbering: numbering(1, 0), Set: &holdfastv1.Set{Path: "/a", Version: new(int64)}},
			&holdfastv1.SetRequest{Set: &holdfastv1.Set{Path: "/a"}},
			&holdfastv1.SetRequest{Numbering: numbering(1, 0), Set: &holdfastv1.Set{
				Path: "/a", Data: make([]byte, maxFuzzedBytes),
			}},
		},
		holdfastv1.TreeService_SetACL_FullMethodName: {
			&holdfastv1.SetACLRequest{Numbering: numbering(1, 0), SetAcl: &holdfastv1.SetACL{Path: "/", Acl: anyone}},
		},
		holdfastv1.TreeService_Transact_FullMethodName: {
			&holdfastv1.TransactRequest{
				Numbering: numbering(1, 0), Transaction: &holdfastv1.Transaction{Then: ops, Conditions: []*holdfastv1.Condition{{
					Path: "/a", Property: holdfastv1.Property_PROPERTY_EXISTS,
					Comparison: holdfastv1.Comparison_COMPARISON_EQUAL,
				}}}, Will: &holdfastv1.Will{Transaction: &holdfastv1.Transaction{Then: ops[1:]}, OnClose: true},
			},
			&holdfastv1.TransactRequest{
				Numbering: numbering(1, 0), Transaction: &holdfastv1.Transaction{Else: []*holdfastv1.Op{{}}},
			},
			&holdfastv1.TransactRequest{Numbering: numbering(1, 0)},
		},
		holdfastv1.TreeService_Get_FullMethodName: {
			&holdfastv1.GetRequest{Path: "/a", Options: options}, &holdfastv1.GetRequest{Path: "a"},
			&holdfastv1.GetRequest{Path: "/a", Options: both}, &holdfastv1.GetRequest{Path: ugly},
		},
		holdfastv1.TreeService_Exists_FullMethodName: {&holdfastv1.ExistsRequest{Path: "/"}},
		holdfastv1.TreeService_List_FullMethodName: {
			&holdfastv1.ListRequest{Listing: &holdfastv1.Listing{Path: "/", PageSize: 1000, WithData: true, After: "b"}},
			&holdfastv1.ListRequest{Listing: &holdfastv1.Listing{Path: "/", PageSize: 1001}},
			&holdfastv1.ListRequest{Listing: &holdfastv1.Listing{Path: "/", After: "b/c"}},
		},
		holdfastv1.TreeService_GetEphemerals_FullMethodName: {
			&holdfastv1.GetEphemeralsRequest{Ephemerals: &holdfastv1.EphemeralsOf{SessionId: 7, Prefix: "/a", After: "/b"}},
			&holdfastv1.GetEphemeralsRequest{},
		},
		holdfastv1.TreeService_GetACL_FullMethodName: {&holdfastv1.GetACLRequest{Path: "/a", Options: options}},
		holdfastv1.TreeService_CheckFence_FullMethodName: {
			&holdfastv1.CheckFenceRequest{Fence: &holdfastv1.Fence{Path: "/a", Token: 9}},
			&holdfastv1.CheckFenceRequest{Fence: &holdfastv1.Fence{Path: "/a"}},
		},
		holdfastv1.TreeService_Sync_FullMethodName: {&holdfastv1.SyncRequest{Seen: 9}},
	}[name]
}

// fuzzedStamp is that of all answers.
const fuzzedStamp = 5 << 16

// fuzzedStat is that of all entries.
func fuzzedStat() tree.Stat {
	return tree.Stat{Created: 9, Modified: 9, ChildrenModified: 9, Kind: tree.Persistent}
}

// tree responds to requests of the tree with the outcome.
func (a *answering) tree(f *fakeTree, asked any) error {
	switch r := asked.(type) {
	case adoption:
		return a.hear(r, r.token.ID != 0 && r.token.Attachment != 0)
	case session.TreeWrite:
		f.answer(session.TreeAnswer{
			Key: r.Key, Stamp: fuzzedStamp, Wrote: resultOf(r.Write), Err: a.hear(r, r.Write.Check() == nil),
		})
	case session.TreeRead:
		q := r.Query
		fits := inRange(q) && r.Bytes > 0
		f.answer(session.TreeAnswer{
			Key: r.Key, Stamp: fuzzedStamp, Err: a.hear(r, fits),
			Read: &tree.Answer{
				Kind: q.Kind, Exists: true, Stat: fuzzedStat(), Data: []byte("d"), Paths: []string{"/a"}, ACL: tree.Open(),
				Children: []tree.Child{{Name: "c", Stat: fuzzedStat()}, {Name: "h", Hidden: true}}, Holds: true, More: true,
			},
		})
	}
	return nil
}

// fuzzedTree gives a service a tree that answers every request that is in range. The returned function returns those
// that are not.
func fuzzedTree(service *fakeService) (wrong func() []any) {
	newest := withTree(service, answeringTree)
	return func() (all []any) {
		f := newest()
		if f == nil {
			return nil
		}
		for _, asked := range f.requests() {
			fits := true
			switch r := asked.(type) {
			case session.TreeWrite:
				r.Write.Attachment = 1 // the node's
				fits = r.Key != 0 && r.Write.Check() == nil
			case session.TreeRead:
				fits = inRange(r.Query) && r.Bytes > 0 && (!r.Query.Watch || r.Query.WatchKind() != 0)
			case session.TreeAddition:
				fits = len(r.Addition.Watches) <= tree.MaxWatches && r.Bytes > 0 && validWatches(r.Addition.Watches, false)
			case removal:
				fits = validWatches(r.watches, true)
			case refusal:
				fits = r.id != 0 && errors.Is(r.why, session.ErrInvalid)
			}
			if !fits {
				all = append(all, asked)
			}
		}
		return all
	}
}

func inRange(q tree.Query) bool {
	path := tree.CheckPath(q.Path) == nil || q.Kind == tree.Sync ||
		q.Kind == tree.ListEphemerals && len(q.Path) <= tree.MaxPath
	return path && q.PageSize >= 0 && q.PageSize <= tree.MaxPage && (!q.Options.Linearizable || !q.Options.AllowStale)
}

// validWatches reports whether a request may name these watches. Kind 0 is for removals.
func validWatches(all []tree.WatchSpec, removed bool) bool {
	return len(all) > 0 && !slices.ContainsFunc(all, func(w tree.WatchSpec) bool {
		return tree.CheckPath(w.Path) != nil || !w.Kind.Valid() && (!removed || w.Kind != 0)
	})
}

// resultOf returns the result of a write whose operations all take effect.
func resultOf(w tree.NumberedWrite) *tree.Result {
	r := &tree.Result{Stamp: fuzzedStamp, Void: w.Void}
	for _, op := range w.Transaction.Then {
		done := tree.OpOutcome{Stat: fuzzedStat()}
		if created, ok := op.(tree.Create); ok {
			done.Path = created.Path
		}
		r.Outcome.Ops = append(r.Outcome.Ops, done)
	}
	return r
}

// checkTree checks the answer to a request of the tree.
func (u *unaryTry) checkTree(t *testing.T, a interface{ GetStamp() uint64 }) {
	t.Helper()
	if a.GetStamp() != fuzzedStamp {
		t.Errorf("%v was answered as of %v", u.request, tree.Stamp(a.GetStamp()))
	}
	switch a := a.(type) {
	case *holdfastv1.CreateResponse:
		if a.GetPath() != u.request.(*holdfastv1.CreateRequest).GetCreate().GetPath() || a.GetStat() == nil {
			t.Errorf("%v was answered with %v", u.request, a)
		}
	case *holdfastv1.TransactResponse:
		if got, err := wire.OutcomeFrom(a.GetOutcome()); err != nil ||
			len(got.Ops) != len(u.request.(*holdfastv1.TransactRequest).GetTransaction().GetThen()) {
			t.Errorf("%v was answered with %v: %v", u.request, a, err)
		}
	case *holdfastv1.CheckFenceResponse:
		if !a.GetHolds() {
			t.Errorf("%v was answered with %v", u.request, a)
		}
	}
}

// treeOutcomes are outcomes of requests of the tree alone.
func treeOutcomes() []error {
	refused := &tree.RefusedError{Code: tree.NoNode, Verb: "get", Path: "/a"}
	return []error{
		refused, &tree.WriteError{Refused: refused, At: -1, Stamp: 3}, &tree.GapError{Expected: 4},
		&tree.WindowError{Limit: "256 results"}, session.ErrNoInstance, session.ErrLocalSession,
		errors.Join(session.ErrOutcomeUnknown, session.ErrClosed),
	}
}
