package wire

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/internal/porttest"
	"holdfast/tree"
)

func treeStat() tree.Stat {
	return tree.Stat{
		Created: 1, Modified: 2 << 16, ChildrenModified: 3 << 16, CreatedAt: time.UnixMilli(1_800_000_000_123).UTC(),
		ModifiedAt: time.UnixMilli(-1).UTC(), Version: 4, ACLVersion: 5, ChildrenVersion: 6, Owner: 1 << 63, Bytes: 7,
		Children: 8, Kind: tree.InLockDelay, Due: time.Minute, Remaining: time.Second,
	}
}

// treeOps returns operations that use each field.
func treeOps() []tree.Op {
	return []tree.Op{
		tree.Create{
			Path: "/a/", Sequential: true, Data: []byte("d"), Kind: tree.Ephemeral, Parents: true, LockDelay: time.Second,
			ACL: tree.Open(),
		},
		tree.Create{Path: "/b", Kind: tree.Expiring, TTL: tree.MaxTTL},
		tree.Create{Path: "/c", Data: []byte{}, Kind: tree.Container, ACL: tree.ACL{}},
		tree.Create{Path: "/d", Kind: tree.Persistent},
		tree.Set{Path: "/b", Data: []byte{}, Version: 0},
		tree.Set{Path: "/b", Version: tree.Any},
		tree.Delete{Path: "/b", Version: 9},
		tree.DeleteTree{Path: "/a"},
		tree.SetACL{Path: "/", ACL: tree.Open(), Version: 1},
		tree.SetACL{Path: "/c", Version: tree.Any},
		tree.Check{Path: "/", Version: tree.Any},
	}
}

func treeWrite() tree.NumberedWrite {
	return tree.NumberedWrite{
		Session: 7, Number: 3, Acked: 2, Transaction: tree.Transaction{
			If: []tree.Condition{
				{Path: "/a", Property: tree.Exists, Is: tree.Equal},
				{Path: "/a", Property: tree.ChildCount, Is: tree.Greater, Value: 1<<64 - 1},
			},
			Then: treeOps(), Else: []tree.Op{tree.DeleteTree{Path: "/e"}},
		},
		Will: &tree.Will{Transaction: tree.Transaction{Then: []tree.Op{tree.DeleteTree{Path: "/w"}}}, OnClose: true},
	}
}

// overWire returns a copy of m that went over a wire.
func overWire[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	fresh := m.ProtoReflect().New().Interface()
	if err = proto.Unmarshal(b, fresh); err != nil {
		t.Fatal(err)
	}
	copied, ok := fresh.(M)
	if !ok {
		t.Fatalf("a copy of %T is a %T", m, fresh)
	}
	return copied
}

func wantEqual[T any](t *testing.T, got T, err error, want T) {
	t.Helper()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestTreeWritesRoundTrip(t *testing.T) {
	bare := tree.NumberedWrite{Session: 1, Number: 1}
	void := tree.NumberedWrite{Session: 1, Number: 2, Acked: 1, Void: true}
	clears := tree.NumberedWrite{Session: 1, Number: 2, Will: &tree.Will{}}
	for _, want := range []tree.NumberedWrite{treeWrite(), bare, void, clears} {
		got, err := WriteFrom(overWire(t, WriteProto(5, want)), nil)
		wantEqual(t, got, err, want)
	}
	for _, want := range []tree.Result{
		{Stamp: 1, Void: true},
		{Stamp: 9 << 16, Outcome: tree.Outcome{Else: true, Ops: []tree.OpOutcome{
			{Path: "/a", Stat: treeStat()}, {Removed: 10_000}, {},
		}}},
		{Stamp: 3, Outcome: tree.Outcome{At: -1, Refused: &tree.RefusedError{
			Code: tree.NoPermission, Verb: "compare", Path: "/a", Detail: "needs r",
		}}},
		{Stamp: 3, Outcome: tree.Outcome{Else: true, At: 4, Refused: &tree.RefusedError{
			Code: tree.OverLimit, Verb: "create", Path: "/a", Detail: "max_children is 1",
		}}},
	} {
		p := overWire(t, WrittenProto(5, want))
		if p.GetSeq() != 5 {
			t.Errorf("seq is %d", p.GetSeq())
		}
		got, err := WrittenFrom(p)
		wantEqual(t, got, err, want)
	}
}

func TestUnaryWrites(t *testing.T) {
	token := session.Token{ID: 7, Credential: session.Credential{1}, Attachment: 9}
	numbering := NumberingProto(token, 3, 2)
	principals := []tree.Principal{{Scheme: tree.Digest, ID: "a:b"}}
	ops := treeOps()
	for _, one := range []struct {
		request any
		op      tree.Op
	}{
		{&holdfastv1.CreateRequest{Numbering: numbering, Create: OpProto(ops[0]).GetCreate()}, ops[0]},
		{&holdfastv1.SetRequest{Numbering: numbering, Set: OpProto(ops[4]).GetSet()}, ops[4]},
		{&holdfastv1.DeleteRequest{Numbering: numbering, Delete: OpProto(ops[6]).GetDelete()}, ops[6]},
		{&holdfastv1.DeleteTreeRequest{Numbering: numbering, DeleteTree: OpProto(ops[7]).GetDeleteTree()}, ops[7]},
		{&holdfastv1.SetACLRequest{Numbering: numbering, SetAcl: OpProto(ops[8]).GetSetAcl()}, ops[8]},
	} {
		gotToken, got, err := UnaryWriteFrom(one.request, principals)
		wantEqual(t, got, err, tree.NumberedWrite{
			Session: 7, Attachment: 9, Number: 3, Acked: 2, Principals: principals,
			Transaction: tree.Transaction{Then: []tree.Op{one.op}},
		})
		wantEqual(t, gotToken, err, token)
	}
	want := treeWrite()
	want.Attachment, want.Principals = 9, principals
	_, got, err := UnaryWriteFrom(&holdfastv1.TransactRequest{
		Numbering: numbering, Transaction: TransactionProto(want.Transaction), Will: WillProto(want.Will),
	}, principals)
	wantEqual(t, got, err, want)
	for field, request := range map[string]any{
		"message":          &holdfastv1.GetRequest{},
		"numbering":        &holdfastv1.SetRequest{},
		"numbering.token":  &holdfastv1.SetRequest{Numbering: &holdfastv1.Numbering{}},
		"numbering.number": &holdfastv1.SetRequest{Numbering: NumberingProto(token, 0, 0)},
		"numbering.acked":  &holdfastv1.SetRequest{Numbering: NumberingProto(token, 1, 1)},
		"set.path":         &holdfastv1.SetRequest{Numbering: numbering},
		"create.path":      &holdfastv1.CreateRequest{Numbering: numbering},
		"delete.path":      &holdfastv1.DeleteRequest{Numbering: numbering, Delete: &holdfastv1.Delete{Path: "a"}},
		"delete_tree.path": &holdfastv1.DeleteTreeRequest{Numbering: numbering},
		"set_acl.path":     &holdfastv1.SetACLRequest{Numbering: numbering, SetAcl: &holdfastv1.SetACL{Path: "/a/"}},
		"will.transaction": &holdfastv1.TransactRequest{Numbering: numbering, Will: badWill()},
		"transaction.then[0].op": &holdfastv1.TransactRequest{
			Numbering: numbering, Transaction: &holdfastv1.Transaction{Then: []*holdfastv1.Op{{}}},
		},
	} {
		_, _, err := UnaryWriteFrom(request, nil)
		porttest.WantField(t, err, field)
	}
}

// badWill returns a will with an ephemeral, which nobody would own.
func badWill() *holdfastv1.Will {
	return WillProto(&tree.Will{Transaction: tree.Transaction{Then: []tree.Op{
		tree.Create{Path: "/a", Kind: tree.Ephemeral},
	}}})
}

func TestTreeFieldsOutOfRange(t *testing.T) {
	create := func(change func(*holdfastv1.Create)) func(*holdfastv1.Write) {
		return func(p *holdfastv1.Write) { change(p.GetTransaction().GetThen()[0].GetCreate()) }
	}
	negative := int64(-1)
	for _, one := range []struct {
		field string
		spoil func(*holdfastv1.Write)
	}{
		{"session_id", func(p *holdfastv1.Write) { p.SessionId = 0 }},
		{"number", func(p *holdfastv1.Write) { p.Number = 0 }},
		{"acked", func(p *holdfastv1.Write) { p.Acked = 3 }},
		{"void", func(p *holdfastv1.Write) { p.Void = true }},
		{"transaction.conditions[1].property", func(p *holdfastv1.Write) { p.Transaction.Conditions[1].Property = 7 }},
		{"transaction.conditions[0].comparison", func(p *holdfastv1.Write) { p.Transaction.Conditions[0].Comparison = 0 }},
		{"transaction.conditions[0].path", func(p *holdfastv1.Write) { p.Transaction.Conditions[0].Path = "//" }},
		{"transaction.then[0].create.path", create(func(p *holdfastv1.Create) { p.Path = "a" })},
		{"transaction.then[0].create.kind", create(func(p *holdfastv1.Create) { p.Kind = 5 })},
		{"transaction.then[0].create.kind", create(func(p *holdfastv1.Create) { p.Kind = -1 })},
		{"transaction.then[0].create.null", create(func(p *holdfastv1.Create) { p.Null = true })},
		{"transaction.then[0].create.ttl", create(func(p *holdfastv1.Create) { p.Ttl = millisProto(time.Second) })},
		{"transaction.then[0].create.lock_delay", create(func(p *holdfastv1.Create) { p.LockDelay = millisProto(time.Hour) })},
		{"transaction.then[0].create.lock_delay", create(func(p *holdfastv1.Create) { p.LockDelay = millisProto(1) })},
		{"transaction.then[0].create.lock_delay", create(func(p *holdfastv1.Create) { p.LockDelay = porttest.BadDuration() })},
		{"transaction.then[0].create.acl", create(func(p *holdfastv1.Create) { p.Acl.Grants[0].Scheme = "auth" })},
		{"transaction.then[0].create.acl.permissions", create(func(p *holdfastv1.Create) {
			p.Acl.Grants[0].Permissions = 257
		})},
		{"transaction.then[0].create.acl.grants", create(func(p *holdfastv1.Create) {
			p.Acl.Grants = slices.Repeat(p.Acl.Grants, tree.MaxGrants+1)
		})},
		{"transaction.then[4].set.version", func(p *holdfastv1.Write) {
			p.Transaction.Then[4].GetSet().Version = &negative
		}},
		{"transaction.else[0].delete_tree.path", func(p *holdfastv1.Write) {
			p.Transaction.Else[0].GetDeleteTree().Path = ""
		}},
		{"transaction.then", func(p *holdfastv1.Write) {
			p.Transaction.Then = slices.Repeat(p.Transaction.Else, tree.MaxOps+1)
		}},
		{"transaction.then", create(func(p *holdfastv1.Create) { p.Data = make([]byte, tree.MaxRequest) })},
		{"transaction.then", func(p *holdfastv1.Write) { // within all other bounds, and half a million entries (U2 weight)
			p.Transaction.Then = nil
			for i := range tree.MaxWeight / 1000 {
				path := fmt.Sprintf("/%d%s", i, strings.Repeat("/a", 220))
				p.Transaction.Then = append(p.Transaction.Then, OpProto(tree.Create{
					Path: path, Kind: tree.Persistent, Parents: true,
				}))
			}
		}},
		{"will.transaction", func(p *holdfastv1.Write) { p.Will = badWill() }},
	} {
		p := WriteProto(1, treeWrite())
		one.spoil(p)
		_, err := WriteFrom(p, nil)
		porttest.WantField(t, err, one.field)
	}
}

// The node replaces auth by whom it has found the client to be (P1 principals); an address is not that.
func TestAuthIsExpanded(t *testing.T) {
	principals := []tree.Principal{
		{Scheme: tree.IP, ID: "10.0.0.1"}, {Scheme: tree.Digest, ID: "a:b"}, {Scheme: tree.X509, ID: "CN=a"},
	}
	list := &holdfastv1.AccessList{Grants: []*holdfastv1.Grant{
		{Permissions: 1, Scheme: tree.World, Id: tree.Anyone}, {Permissions: 31, Scheme: tree.Auth},
	}}
	got, err := AccessListFrom(list, principals)
	wantEqual(t, got, err, tree.ACL{
		{Permissions: tree.Read, Scheme: tree.World, ID: tree.Anyone},
		{Permissions: tree.All, Scheme: tree.Digest, ID: "a:b"},
		{Permissions: tree.All, Scheme: tree.X509, ID: "CN=a"},
	})
	_, err = AccessListFrom(list, principals[:1])
	porttest.WantField(t, err, "acl")
}

func TestStatsOutOfRange(t *testing.T) {
	for field, spoil := range map[string]func(*holdfastv1.Stat){
		"stat.created":           func(p *holdfastv1.Stat) { p.Created = 0 },
		"stat.modified":          func(p *holdfastv1.Stat) { p.Modified = 0 },
		"stat.children_modified": func(p *holdfastv1.Stat) { p.ChildrenModified = 0 },
		"stat.created_at":        func(p *holdfastv1.Stat) { p.CreatedAt = nil },
		"stat.modified_at":       func(p *holdfastv1.Stat) { p.ModifiedAt.Nanos = -1 },
		"stat.version":           func(p *holdfastv1.Stat) { p.AclVersion = -1 },
		"stat.bytes":             func(p *holdfastv1.Stat) { p.Children = 1 << 31 },
		"stat.kind":              func(p *holdfastv1.Stat) { p.Kind = 6 },
		"stat.due":               func(p *holdfastv1.Stat) { p.Due = porttest.BadDuration() },
		"stat.remaining":         func(p *holdfastv1.Stat) { p.Remaining = porttest.BadDuration() },
	} {
		p := StatProto(treeStat())
		spoil(p)
		_, err := StatFrom(p)
		porttest.WantField(t, err, field)
	}
	_, err := StatFrom(nil)
	porttest.WantField(t, err, "stat")
	_, err = WrittenFrom(&holdfastv1.Written{})
	porttest.WantField(t, err, "written.stamp")
	_, err = OutcomeFrom(&holdfastv1.Outcome{Refused: &holdfastv1.ErrorDetail{}})
	porttest.WantField(t, err, "outcome.refused")
	_, err = OutcomeFrom(&holdfastv1.Outcome{Results: []*holdfastv1.OpResult{{Removed: 1 << 31}}})
	porttest.WantField(t, err, "outcome.results.removed")
	_, err = OutcomeFrom(&holdfastv1.Outcome{Results: []*holdfastv1.OpResult{{Stat: &holdfastv1.Stat{}}}})
	porttest.WantField(t, err, "outcome.results[0].stat.created")
}
