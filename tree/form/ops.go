package form

import (
	"fmt"
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

// appendTransaction appends a transaction that has passed its check; nothing for one without conditions and operations.
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
	for _, op := range x.Then {
		b = appendOp(b, 2, op)
	}
	for _, op := range x.Else {
		b = appendOp(b, 3, op)
	}
	return fields.End(b, whole)
}

// appendOp appends an operation. Versions are appended plus 1, so that any is 0.
func appendOp(b []byte, number protowire.Number, op tree.Op) []byte {
	b, whole := fields.Begin(b, number)
	var at int
	switch op := op.(type) {
	case tree.Create:
		b, at = fields.Begin(b, createField)
		b = appendCreate(b, op)
	case tree.Set:
		b, at = fields.Begin(b, setField)
		b = text(b, 1, op.Path)
		b = data(b, 2, op.Data)
		b = fields.Varint(b, 3, uint64(op.Version+1))
	case tree.Delete:
		b, at = fields.Begin(b, deleteField)
		b = text(b, 1, op.Path)
		b = fields.Varint(b, 2, uint64(op.Version+1))
	case tree.DeleteTree:
		b, at = fields.Begin(b, deleteTreeField)
		b = text(b, 1, op.Path)
	case tree.SetACL:
		b, at = fields.Begin(b, setACLField)
		b = text(b, 1, op.Path)
		b = appendACL(b, 2, op.ACL)
		b = fields.Varint(b, 3, uint64(op.Version+1))
	case tree.Check:
		b, at = fields.Begin(b, checkField)
		b = text(b, 1, op.Path)
		b = fields.Varint(b, 2, uint64(op.Version+1))
	default:
		panic(fmt.Sprintf("form: operation %T passed its check and cannot be written", op))
	}
	return fields.End(fields.End(b, at), whole)
}

func appendCreate(b []byte, c tree.Create) []byte {
	b = text(b, 1, c.Path)
	b = flag(b, 2, c.Sequential)
	b = data(b, 3, c.Data)
	b = fields.Varint(b, 4, uint64(c.Kind))
	b = flag(b, 5, c.Parents)
	b = fields.Varint(b, 6, uint64((c.TTL + c.Linger).Milliseconds()))
	return appendACL(b, 7, c.ACL)
}

// readTransaction reads a transaction, which is empty if it is absent. Its caller checks it.
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
	// Empty messages are not written, so that equal transactions have equal bytes.
	if !ok || !m.End() || len(x.If)+len(x.Then)+len(x.Else) == 0 {
		r.Refuse()
	}
	return x
}

// readOps reads at most so many operations.
func readOps(r *fields.Reader, number protowire.Number, most int) (ops []tree.Op, ok bool) {
	n := count(r, number)
	if n == 0 || n > most {
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

// readOp reads one operation; nil if there is none.
func readOp(r *fields.Reader) (op tree.Op) {
	for number := createField; number <= checkField; number++ {
		m, ok := r.Message(protowire.Number(number))
		if !ok {
			continue
		}
		path := readText(&m, 1)
		switch number {
		case createField:
			op = readCreate(&m, path)
		case setField:
			op = tree.Set{Path: path, Data: readData(&m, 2), Version: readInt(&m, 3) - 1}
		case deleteField:
			op = tree.Delete{Path: path, Version: readInt(&m, 2) - 1}
		case deleteTreeField:
			op = tree.DeleteTree{Path: path}
		case setACLField:
			op = tree.SetACL{Path: path, ACL: readACL(&m, 2), Version: readInt(&m, 3) - 1}
		default: // checkField
			op = tree.Check{Path: path, Version: readInt(&m, 2) - 1}
		}
		if !m.End() {
			return nil
		}
		return op
	}
	return nil
}

func readCreate(r *fields.Reader, path string) tree.Op {
	c := tree.Create{
		Path: path, Sequential: r.Bool(2), Data: readData(r, 3), Kind: tree.Kind(readByte(r, 4)), Parents: r.Bool(5),
	}
	life := r.Varint(6)
	switch {
	case life > uint64(tree.MaxTTL.Milliseconds()):
		r.Refuse()
	case c.Kind == tree.Ephemeral:
		c.Linger = time.Duration(life) * time.Millisecond
	default: // of a kind without one, the check refuses it
		c.TTL = time.Duration(life) * time.Millisecond
	}
	c.ACL = readACL(r, 7)
	return c
}
