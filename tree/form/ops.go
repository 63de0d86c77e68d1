package form

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"holdfast/proto/fields"
	"holdfast/tree"
)

// Numbers of the fields of Op.
const (
	createField     = 1
	setField        = 2
	deleteField     = 3
	deleteTreeField = 4
	setACLField     = 5
	checkField      = 6
)

// appendTransaction appends a transaction that has passed its check. It appends nothing for a transaction without
// conditions and operations.
func appendTransaction(b []byte, number protowire.Number, x tree.Transaction) []byte {
	if len(x.If)+len(x.Then)+len(x.Else) == 0 {
		return b
	}
	b, whole := fields.Begin(b, number)
	for _, c := range x.If {
		var at int
		b, at = fields.Begin(b, 1)
		b = text(b, 1, c.Path)
		b = fields.Varint(b, 2, uint64(c.Property))
		b = fields.Varint(b, 3, uint64(c.Is))
		b = fields.Varint(b, 4, c.Value)
		b = fields.End(b, at)
	}
	w := opWriter{b: b}
	w.append(2, x.Then)
	w.append(3, x.Else)
	return fields.End(w.b, whole)
}

// opWriter appends the messages of operations that have passed their checks. Versions are appended plus 1, so that
// [tree.Any] is 0.
type opWriter struct{ b []byte }

// append appends operations.
func (w *opWriter) append(number protowire.Number, ops []tree.Op) {
	for _, op := range ops {
		var whole int
		w.b, whole = fields.Begin(w.b, number)
		op.Visit(w)
		w.b = fields.End(w.b, whole)
	}
}

// message appends a field with a message that begins with the operation's path.
func (w *opWriter) message(field protowire.Number, path string, rest func(b []byte) []byte) {
	b, at := fields.Begin(w.b, field)
	w.b = fields.End(rest(text(b, 1, path)), at)
}

// Create implements [tree.Visitor].
func (w *opWriter) Create(op tree.Create) {
	w.message(createField, op.Path, func(b []byte) []byte {
		b = flag(b, 2, op.Sequential)
		b = data(b, 3, op.Data)
		b = fields.Varint(b, 4, uint64(op.Kind))
		b = flag(b, 5, op.Parents)
		b = fields.Varint(b, 6, uint64((op.TTL + op.LockDelay).Milliseconds()))
		return appendACL(b, 7, op.ACL)
	})
}

// Set implements [tree.Visitor].
func (w *opWriter) Set(op tree.Set) {
	w.message(setField, op.Path, func(b []byte) []byte {
		return fields.Varint(data(b, 2, op.Data), 3, uint64(op.Version+1))
	})
}

// Delete implements [tree.Visitor].
func (w *opWriter) Delete(op tree.Delete) {
	w.message(deleteField, op.Path, func(b []byte) []byte { return fields.Varint(b, 2, uint64(op.Version+1)) })
}

// DeleteTree implements [tree.Visitor].
func (w *opWriter) DeleteTree(op tree.DeleteTree) {
	w.message(deleteTreeField, op.Path, func(b []byte) []byte { return b })
}

// SetACL implements [tree.Visitor].
func (w *opWriter) SetACL(op tree.SetACL) {
	w.message(setACLField, op.Path, func(b []byte) []byte {
		return fields.Varint(appendACL(b, 2, op.ACL), 3, uint64(op.Version+1))
	})
}

// Check implements [tree.Visitor].
func (w *opWriter) Check(op tree.Check) {
	w.message(checkField, op.Path, func(b []byte) []byte { return fields.Varint(b, 2, uint64(op.Version+1)) })
}

// readTransaction reads a transaction; an absent field is an empty transaction. The caller checks the transaction.
func readTransaction(r *fields.Reader, number protowire.Number) (x tree.Transaction) {
	m, ok := r.Message(number)
	if !ok {
		return x
	}
	left := tree.MaxOps
	if n := count(&m, 1); n > 0 && n <= left {
		left -= n
		x.If = make([]tree.Condition, 0, n)
		for c, more := m.Message(1); more; c, more = m.Message(1) {
			x.If = append(x.If, tree.Condition{
				Path: readText(&c, 1), Property: tree.Property(readByte(&c, 2)), Is: tree.Comparison(readByte(&c, 3)),
				Value: c.Varint(4),
			})
			if !c.End() {
				r.Refuse()
			}
		}
	}
	if x.Then, ok = readOps(&m, 2, left); ok {
		x.Else, ok = readOps(&m, 3, left-len(x.Then))
	}
	// An empty message is never written: equal transactions must have equal bytes.
	if !ok || !m.End() || len(x.If)+len(x.Then)+len(x.Else) == 0 {
		r.Refuse()
	}
	return x
}

// readOps reads at most the given number of operations.
func readOps(r *fields.Reader, number protowire.Number, limit int) (ops []tree.Op, ok bool) {
	n := count(r, number)
	if n == 0 || n > limit {
		return nil, n == 0
	}
	ops = make([]tree.Op, 0, n)
	for m, more := r.Message(number); more; m, more = r.Message(number) {
		op := readOp(&m)
		if op == nil || !m.End() {
			return nil, false
		}
		ops = append(ops, op)
	}
	return ops, true
}

// opReaders read the part after the path in the message of an operation, by the fields of Op, and report whether the
// message ends there.
//
//nolint:gochecknoglobals // a table
var opReaders = [...]func(m fields.Reader, path string) (op tree.Op, whole bool){
	createField: readCreate,
	setField: func(m fields.Reader, path string) (tree.Op, bool) {
		op := tree.Set{Path: path, Data: sharedData(&m, 2), Version: readInt(&m, 3) - 1}
		return op, m.End()
	},
	deleteField: func(m fields.Reader, path string) (tree.Op, bool) {
		op := tree.Delete{Path: path, Version: readInt(&m, 2) - 1}
		return op, m.End()
	},
	deleteTreeField: func(m fields.Reader, path string) (tree.Op, bool) { return tree.DeleteTree{Path: path}, m.End() },
	setACLField: func(m fields.Reader, path string) (tree.Op, bool) {
		op := tree.SetACL{Path: path, ACL: readACL(&m, 2), Version: readInt(&m, 3) - 1}
		return op, m.End()
	},
	checkField: func(m fields.Reader, path string) (tree.Op, bool) {
		op := tree.Check{Path: path, Version: readInt(&m, 2) - 1}
		return op, m.End()
	},
}

// readOp reads one operation; nil if there is none.
func readOp(r *fields.Reader) tree.Op {
	for number, read := range opReaders {
		if read == nil {
			continue
		}
		m, ok := r.Message(protowire.Number(number))
		if !ok {
			continue
		}
		path := readText(&m, 1)
		if op, whole := read(m, path); whole {
			return op
		}
		return nil
	}
	return nil
}

func readCreate(m fields.Reader, path string) (tree.Op, bool) {
	c := tree.Create{
		Path: path, Sequential: m.Bool(2), Data: sharedData(&m, 3), Kind: tree.Kind(readByte(&m, 4)), Parents: m.Bool(5),
	}
	life := m.Varint(6)
	switch {
	case life > uint64(tree.MaxTTL.Milliseconds()):
		m.Refuse()
	case c.Kind == tree.Ephemeral:
		c.LockDelay = time.Duration(life) * time.Millisecond
	default: // the check refuses a TTL or a lock-delay of any other kind
		c.TTL = time.Duration(life) * time.Millisecond
	}
	c.ACL = readACL(&m, 7)
	return c, m.End()
}
