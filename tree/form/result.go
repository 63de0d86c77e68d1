package form

import (
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"holdfast/proto/fields"
	"holdfast/tree"
)

// AppendResult appends the Result of a write that the state keeps (X2 writers). Replicas must append the same bytes for
// the same result, in this release and in every later one.
func AppendResult(b []byte, one tree.Result) []byte {
	b = fields.Fixed64(b, 1, uint64(one.Stamp))
	b = flag(b, 2, one.Void)
	b = flag(b, 3, one.Outcome.Else)
	for i := range one.Outcome.Ops {
		op := &one.Outcome.Ops[i]
		var at int
		b, at = fields.Begin(b, 4)
		b = text(b, 1, op.Path)
		b = appendStat(b, 2, &op.Stat)
		b = fields.Varint(b, 3, uint64(op.Removed))
		b = fields.End(b, at)
	}
	if refused := one.Outcome.Refused; refused != nil {
		var at int
		b, at = fields.Begin(b, 5)
		b = fields.Varint(b, 1, uint64(refused.Code))
		b = text(b, 2, refused.Verb)
		b = text(b, 3, refused.Path)
		b = text(b, 4, refused.Detail)
		b = fields.Varint(b, 5, uint64(one.Outcome.At+1))
		b = fields.End(b, at)
	}
	return b
}

// ParseResult reads a Result that [AppendResult] has appended. Times of entries come back to the millisecond.
func ParseResult(b []byte) (tree.Result, error) {
	r := fields.Read(b)
	one := tree.Result{Stamp: tree.Stamp(r.Fixed64(1)), Void: r.Bool(2)}
	one.Outcome.Else = r.Bool(3)
	n := count(&r, 4)
	if n > tree.MaxOps {
		return tree.Result{}, outOf("result.ops", n, "at most 10,000")
	}
	if n > 0 {
		one.Outcome.Ops = make([]tree.OpOutcome, 0, n)
	}
	ok := true
	for m, more := r.Message(4); more; m, more = r.Message(4) {
		op := tree.OpOutcome{Path: readText(&m, 1), Stat: readStat(&m, 2)}
		removed := m.Varint(3)
		op.Removed = int(min(removed, math.MaxInt32))
		ok = ok && m.End() && removed <= math.MaxInt32
		one.Outcome.Ops = append(one.Outcome.Ops, op)
	}
	if m, has := r.Message(5); has {
		one.Outcome.Refused = &tree.RefusedError{
			Code: tree.Code(readByte(&m, 1)), Verb: readText(&m, 2), Path: readText(&m, 3), Detail: readText(&m, 4),
		}
		at := m.Varint(5)
		one.Outcome.At = int(min(at, tree.MaxOps)) - 1
		ok = ok && m.End() && at <= tree.MaxOps
	}
	if !ok || !r.End() {
		return tree.Result{}, malformed("result")
	}
	return one, checkResult(&one)
}

func checkResult(one *tree.Result) error {
	refused := one.Outcome.Refused
	switch {
	case one.Stamp == 0:
		return outOf("result.stamp", one.Stamp, "not 0")
	case one.Void && (one.Outcome.Else || len(one.Outcome.Ops) > 0 || refused != nil):
		return outOf("result.void", "with an outcome", "without one")
	case refused == nil:
		return nil
	case len(one.Outcome.Ops) > 0:
		return outOf("result.refused", "with results of operations", "without them")
	case refused.Code < tree.NoNode || refused.Code > tree.Reserved:
		return outOf("result.refused.code", refused.Code, "1 to 10")
	}
	return nil
}

// unset reports whether an operation has no stat.
func unset(s *tree.Stat) bool { return s.Kind == 0 }

// appendStat appends a stat; nothing if the operation has none.
func appendStat(b []byte, number protowire.Number, s *tree.Stat) []byte {
	if unset(s) {
		return b
	}
	b, at := fields.Begin(b, number)
	created, modified := s.CreatedAt.UnixMilli(), s.ModifiedAt.UnixMilli()
	b = fields.Fixed64(b, 1, uint64(s.Created))
	b = fields.Varint(b, 2, uint64(s.Modified-s.Created))
	b = fields.Varint(b, 3, uint64(s.ChildrenModified-s.Created))
	b = fields.Varint(b, 4, protowire.EncodeZigZag(created))
	b = fields.Varint(b, 5, protowire.EncodeZigZag(modified-created))
	b = fields.Varint(b, 6, uint64(s.Version))
	b = fields.Varint(b, 7, uint64(s.ACLVersion))
	b = fields.Varint(b, 8, uint64(s.ChildrenVersion))
	b = fields.Fixed64(b, 9, s.Owner)
	b = fields.Varint(b, 10, uint64(s.Bytes))
	b = fields.Varint(b, 11, uint64(s.Children))
	b = fields.Varint(b, 12, uint64(s.Kind))
	b = fields.Varint(b, 13, uint64(s.Due.Milliseconds()))
	return fields.End(b, at)
}

func readStat(r *fields.Reader, number protowire.Number) (s tree.Stat) {
	m, ok := r.Message(number)
	if !ok {
		return s
	}
	s.Created = tree.Stamp(m.Fixed64(1))
	s.Modified = s.Created + tree.Stamp(m.Varint(2))
	s.ChildrenModified = s.Created + tree.Stamp(m.Varint(3))
	created := protowire.DecodeZigZag(m.Varint(4))
	s.CreatedAt = time.UnixMilli(created)
	s.ModifiedAt = time.UnixMilli(created + protowire.DecodeZigZag(m.Varint(5)))
	s.Version, s.ACLVersion, s.ChildrenVersion = readInt(&m, 6), readInt(&m, 7), readInt(&m, 8)
	s.Owner = m.Fixed64(9)
	s.Bytes, s.Children = int(m.Uint32(10)), int(m.Uint32(11))
	s.Kind = tree.Kind(readByte(&m, 12))
	due := readInt(&m, 13)
	s.Due = time.Duration(due) * time.Millisecond
	if !m.End() || s.Kind < tree.Persistent || s.Kind > tree.InLockDelay || due > math.MaxInt64/int64(time.Millisecond) {
		r.Refuse()
	}
	return s
}

// AppendWill appends the KeptWill of a session (U3 wills): the will's transaction, and the principals of the write that
// set the will.
func AppendWill(b []byte, w tree.KeptWill) ([]byte, error) {
	if err := checkWill(w); err != nil {
		return b, err
	}
	return appendPrincipals(appendTransaction(b, 1, w.Transaction), 2, w.Principals), nil
}

// ParseWill reads and checks the KeptWill that [AppendWill] appends.
func ParseWill(b []byte) (tree.KeptWill, error) {
	r := fields.Read(b)
	w := tree.KeptWill{Transaction: readTransaction(&r, 1), Principals: readPrincipals(&r, 2)}
	if !r.End() {
		return tree.KeptWill{}, malformed("will")
	}
	return w, checkWill(w)
}

func checkWill(w tree.KeptWill) error {
	if err := tree.CheckWill(w.Transaction); err != nil {
		return err
	}
	return tree.CheckPrincipals(w.Principals)
}
