package house

import (
	"reflect"
	"testing"

	"holdfast/transport/wire"
	"holdfast/tree"
	"holdfast/tree/form"
)

// Each operation of the tree comes back from the log and from the wire as it was. The compiler finds writers that lack
// an operation, which are visitors; this test finds readers.
func TestEachTreeOperationIsRead(t *testing.T) {
	visitor := reflect.TypeFor[tree.Visitor]()
	verbs := map[string]bool{}
	for method := range visitor.Methods() {
		kind := method.Type.In(0)
		v := reflect.New(kind).Elem()
		v.FieldByName("Path").SetString("/a")
		if field := v.FieldByName("Kind"); field.IsValid() {
			field.Set(reflect.ValueOf(tree.Persistent))
		}
		op, is := reflect.TypeAssert[tree.Op](v)
		if !is {
			t.Errorf("%v: tree.Visitor has it, and it is no tree.Op", kind)
			continue
		}
		if err := tree.CheckOp(op); err != nil {
			t.Errorf("%v: %v", kind, err)
		}
		if op.Target() != "/a" || op.Verb() == "" || verbs[op.Verb()] {
			t.Errorf("%v: its path is %q and its name %q", kind, op.Target(), op.Verb())
		}
		verbs[op.Verb()] = true
		w := tree.NumberedWrite{Session: 1, Attachment: 1, Number: 1, Transaction: tree.Transaction{Then: []tree.Op{op}}}
		encoded, err := form.AppendWrite(nil, w)
		if err != nil {
			t.Errorf("%v: writing it to the log: %v", kind, err)
			continue
		}
		read, err := form.ParseWrite(encoded)
		if err != nil || !reflect.DeepEqual(read.Transaction.Then, w.Transaction.Then) {
			t.Errorf("%v: tree/form reads it as %+v, %v", kind, read.Transaction.Then, err)
		}
		if read, err := wire.OpFrom(wire.OpProto(op), nil); err != nil || !reflect.DeepEqual(read, op) {
			t.Errorf("%v: transport/wire reads it as %+v, %v", kind, read, err)
		}
	}
}
