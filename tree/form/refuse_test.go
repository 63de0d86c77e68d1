package form_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/tree"
	"holdfast/tree/form"
	"holdfast/tree/store"
)

// spoiled returns the Command of a write after a change of its message.
func spoiled(t *testing.T, change func(*logv1.Write)) []byte {
	t.Helper()
	b, err := form.AppendWrite(nil, everyWrite()["write"])
	if err != nil {
		t.Fatal(err)
	}
	m := &logv1.Command{}
	if err = proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	change(m.GetWrite())
	return marshal(t, m)
}

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWritesOutOfBoundsAreRefused(t *testing.T) {
	op := func(i int) func(*logv1.Write, func(*logv1.Op)) {
		return func(m *logv1.Write, f func(*logv1.Op)) { f(m.GetTransaction().GetThen()[i]) }
	}
	for name, one := range map[string]struct {
		change func(*logv1.Write)
		field  string
	}{
		"session":    {func(m *logv1.Write) { m.Session = 0 }, "session"},
		"attachment": {func(m *logv1.Write) { m.Attachment = 0 }, "attachment"},
		"number":     {func(m *logv1.Write) { m.Number = 0 }, "number"},
		"acked":      {func(m *logv1.Write) { m.Acked = m.GetNumber() }, "acked"},
		"scheme":     {func(m *logv1.Write) { m.GetPrincipals()[1].Scheme = "" }, "principals[1].scheme"},
		"principals": {func(m *logv1.Write) { m.GetPrincipals()[0].Id = make([]byte, tree.MaxPrincipal) }, "principals"},
		"17 principals": {
			func(m *logv1.Write) { m.Principals = slices.Repeat(m.GetPrincipals()[:1], 17) }, "write",
		},
		"path": {
			func(m *logv1.Write) { m.GetTransaction().GetConditions()[1].Path = "b" }, "transaction.if[1].path",
		},
		"property": {
			func(m *logv1.Write) { m.GetTransaction().GetConditions()[0].Property = 7 }, "transaction.if[0].property",
		},
		"property of 9 bits": {func(m *logv1.Write) { m.GetTransaction().GetConditions()[0].Property = 257 }, "write"},
		"comparison": {
			func(m *logv1.Write) { m.GetTransaction().GetConditions()[0].Comparison = 0 }, "transaction.if[0].is",
		},
		"kind": {
			func(m *logv1.Write) { op(0)(m, func(o *logv1.Op) { o.GetCreate().Kind = 5 }) }, "transaction.then[0].kind",
		},
		"lock_delay": {
			func(m *logv1.Write) { op(0)(m, func(o *logv1.Op) { o.GetCreate().LifeMs = 60_001 }) },
			"transaction.then[0].lock_delay",
		},
		"ttl": {func(m *logv1.Write) { op(1)(m, func(o *logv1.Op) { o.GetCreate().LifeMs = 1 << 40 }) }, "write"},
		"life of a container": {
			func(m *logv1.Write) { op(2)(m, func(o *logv1.Op) { o.GetCreate().LifeMs = 1 }) }, "transaction.then[2].ttl",
		},
		"grant": {
			func(m *logv1.Write) { op(0)(m, func(o *logv1.Op) { o.GetCreate().Acl.Grants[0].Permissions = 32 }) },
			"transaction.then[0].acl",
		},
		"65 grants": {
			func(m *logv1.Write) {
				op(0)(m, func(o *logv1.Op) { o.GetCreate().Acl.Grants = slices.Repeat(o.GetCreate().GetAcl().GetGrants(), 65) })
			}, "write",
		},
		"version": {func(m *logv1.Write) { op(3)(m, func(o *logv1.Op) { o.GetSet().VersionPlus_1 = 1 << 63 }) }, "write"},
		"empty op": {
			func(m *logv1.Write) { m.GetTransaction().Then[0] = &logv1.Op{} }, "write",
		},
		"empty transaction": {func(m *logv1.Write) { m.Transaction = &logv1.Transaction{} }, "write"},
		"10,001 operations": {
			func(m *logv1.Write) {
				m.Transaction = &logv1.Transaction{Then: slices.Repeat(m.GetTransaction().GetElse()[1:2], tree.MaxOps+1)}
			}, "write",
		},
		"too large": {
			func(m *logv1.Write) {
				op(0)(m, func(o *logv1.Op) { o.GetCreate().Data = make([]byte, tree.MaxRequest) })
			}, "transaction.transaction",
		},
		"will": {
			func(m *logv1.Write) {
				m.GetWill().Transaction.Then = []*logv1.Op{{Op: &logv1.Op_Create{Create: &logv1.Create{Path: "/e", Kind: 2}}}}
			}, "will",
		},
	} {
		_, err := form.ParseWrite(spoiled(t, one.change))
		refusedField(t, name, err, one.field)
	}
	void := everyWrite()["write"]
	void.Void = true
	_, err := form.AppendWrite(nil, void)
	refusedField(t, "void", err, "void")
}

// A field that this release does not know is refused in each message: dropping it would drop its meaning.
func TestUnknownFieldsAreRefused(t *testing.T) {
	command := func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var lists form.Lists
	one, writer := everyEntry()[0], everyWriter(t)[0]
	for name, known := range map[string]struct {
		b     []byte
		m     proto.Message
		parse func([]byte) error
	}{
		"write": {
			command(form.AppendWrite(nil, everyWrite()["write"])), &logv1.Command{},
			func(b []byte) error { _, err := form.ParseWrite(b); return err },
		},
		"void": {
			command(form.AppendWrite(nil, everyWrite()["void"])), &logv1.Command{},
			func(b []byte) error { _, err := form.ParseWrite(b); return err },
		},
		"acknowledge": {
			command(form.AppendAcknowledge(nil, []tree.Acknowledgement{{Session: 1, UpTo: 1}})), &logv1.Command{},
			func(b []byte) error { _, err := form.ParseAcknowledge(b); return err },
		},
		"reap": {
			command(form.AppendReap(nil, []store.Reapable{{Path: "/a"}})), &logv1.Command{},
			func(b []byte) error { _, err := form.ParseReap(b); return err },
		},
		"result": {
			form.AppendResult(nil, everyResult()["result"]), &logv1.Result{},
			func(b []byte) error { _, err := form.ParseResult(b); return err },
		},
		"refused": {
			form.AppendResult(nil, everyResult()["result_refused"]), &logv1.Result{},
			func(b []byte) error { _, err := form.ParseResult(b); return err },
		},
		"will": {
			writer.Will.Data, &logv1.KeptWill{}, func(b []byte) error { _, err := form.ParseWill(b); return err },
		},
		"entry": {
			lists.AppendEntry(nil, &one), &logv1.Record{},
			func(b []byte) error { _, err := new(form.Lists).ParseEntry(b); return err },
		},
		"writer": {
			form.AppendWriter(nil, &writer), &logv1.Record{},
			func(b []byte) error { _, err := form.ParseWriter(b); return err },
		},
		"limits": {
			form.AppendLimits(nil, tree.DefaultLimits()), &logv1.TreeLimits{},
			func(b []byte) error { _, err := form.ParseLimits(b); return err },
		},
	} {
		if err := known.parse(known.b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := proto.Unmarshal(known.b, known.m); err != nil {
			t.Fatal(err)
		}
		count := 0
		everyMessage(known.m.ProtoReflect(), func(m protoreflect.Message) {
			count++
			m.SetUnknown([]byte{99<<3&0x7f | 0x80, 99 >> 4, 1}) // field 99 is 1
			if err := known.parse(marshal(t, known.m)); err == nil {
				t.Errorf("%s: an unknown field in %s is taken", name, m.Descriptor().Name())
			}
			m.SetUnknown(nil)
		})
		if count == 0 {
			t.Errorf("%s: no message was tried", name)
		}
	}
}

// everyMessage calls f for a message and all those in it.
func everyMessage(m protoreflect.Message, f func(protoreflect.Message)) {
	f(m)
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Message() == nil:
		case field.IsList():
			for i := range v.List().Len() {
				everyMessage(v.List().Get(i).Message(), f)
			}
		default:
			everyMessage(v.Message(), f)
		}
		return true
	})
}

func TestOtherFormsAreRefused(t *testing.T) {
	result := func(change func(*tree.Result)) []byte {
		one := everyResult()["result"]
		change(&one)
		return form.AppendResult(nil, one)
	}
	for name, one := range map[string]struct {
		b     []byte
		field string
	}{
		"no stamp": {result(func(r *tree.Result) { r.Stamp = 0 }), "result.stamp"},
		"void":     {result(func(r *tree.Result) { r.Void = true }), "result.void"},
		"code": {result(func(r *tree.Result) {
			r.Outcome = tree.Outcome{Refused: &tree.RefusedError{Code: 11}}
		}), "result.refused.code"},
		"both": {result(func(r *tree.Result) {
			r.Outcome.Refused = &tree.RefusedError{Code: tree.NoNode}
		}), "result.refused"},
		"kind":      {result(func(r *tree.Result) { r.Outcome.Ops[0].Stat.Kind = 6 }), "result"},
		"truncated": {form.AppendResult(nil, everyResult()["result"])[:40], "result"},
		"nothing":   {nil, "result.stamp"},
	} {
		_, err := form.ParseResult(one.b)
		refusedField(t, name, err, one.field)
	}
	_, err := form.AppendAcknowledge(nil, nil)
	refusedField(t, "no acknowledgement", err, "acknowledge.sessions")
	_, err = form.AppendAcknowledge(nil, []tree.Acknowledgement{{UpTo: 1}})
	refusedField(t, "acknowledgement of 0", err, "acknowledge.sessions")
	_, err = form.AppendAcknowledge(nil, []tree.Acknowledgement{{Session: 1}})
	refusedField(t, "acknowledgement up to 0", err, "acknowledge.up_to")
	_, err = form.AppendAcknowledge(nil, make([]tree.Acknowledgement, tree.MaxAcknowledgements+1))
	refusedField(t, "too many acknowledgements", err, "acknowledge.sessions")
	for _, columns := range []*logv1.Acknowledge{
		{Sessions: []uint64{1, 2}, UpTo: []uint64{1}}, {Sessions: []uint64{1}, UpTo: []uint64{1, 2}},
	} {
		_, err = form.ParseAcknowledge(marshal(t, &logv1.Command{Command: &logv1.Command_Acknowledge{Acknowledge: columns}}))
		refusedField(t, "columns", err, "acknowledge.up_to")
	}
	_, err = form.AppendReap(nil, nil)
	refusedField(t, "no reap", err, "reap.entries")
	_, err = form.AppendReap(nil, make([]store.Reapable, tree.MaxReap+1))
	refusedField(t, "too many", err, "reap.entries")
	_, err = form.AppendReap(nil, []store.Reapable{{Path: "a"}})
	refusedField(t, "path", err, "reap.entries.path")
	long := store.Reapable{Path: "/" + strings.Repeat("x", tree.MaxPath-1)}
	_, err = form.AppendReap(nil, slices.Repeat([]store.Reapable{long}, 256))
	refusedField(t, "long paths", err, "reap.entries")
	_, err = form.ParseLimits(form.AppendLimits(nil, tree.Limits{Ephemerals: 1, Bytes: 1}))
	refusedField(t, "limits", err, "max_children")
}

func TestRecordsThatNoStateHasAreRefused(t *testing.T) {
	var lists form.Lists
	one := everyEntry()[0]
	lists.AppendEntry(nil, &one)
	_, err := new(form.Lists).ParseEntry(lists.AppendEntry(nil, &one))
	refusedField(t, "list of no entry", err, "tree_entry.acl_number")
	one.ACL = tree.ACL{{Scheme: "nobody"}}
	_, err = new(form.Lists).ParseEntry(new(form.Lists).AppendEntry(nil, &one))
	refusedField(t, "list", err, "tree_entry.acl")
	for field, spoil := range map[string]func(*logv1.Writer){
		"writer.results": func(m *logv1.Writer) { m.Results = make([][]byte, tree.MaxUnanswered+1) },
		"result.stamp":   func(m *logv1.Writer) { m.Results[0] = nil },
		"will":           func(m *logv1.Writer) { m.Will = []byte{1} },
		"writer":         func(m *logv1.Writer) { m.Will = nil },
	} {
		record, m := everyWriter(t)[0], &logv1.Record{}
		if err := proto.Unmarshal(form.AppendWriter(nil, &record), m); err != nil {
			t.Fatal(err)
		}
		spoil(m.GetWriter())
		_, err := form.ParseWriter(marshal(t, m))
		refusedField(t, field, err, field)
	}
}
