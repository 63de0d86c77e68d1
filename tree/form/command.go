package form

import (
	"google.golang.org/protobuf/encoding/protowire"

	"holdfast/proto/fields"
	"holdfast/tree"
	"holdfast/tree/store"
)

// Numbers of the fields of Command.
const (
	writeField       = 17
	voidField        = 18
	acknowledgeField = 19
	reapField        = 20
)

// Kind is the kind of a command of the tree.
type Kind uint8

// The kinds of commands. Other is every command of another package.
const (
	Other Kind = iota
	Write
	Acknowledge
	Reap
)

// KindOf returns the kind of the log.v1 Command that the bytes begin with. It does not check the rest of the bytes.
func KindOf(command []byte) Kind {
	number, _, n := protowire.ConsumeTag(command)
	switch {
	case n < 0:
		return Other
	case number == writeField, number == voidField:
		return Write
	case number == acknowledgeField:
		return Acknowledge
	case number == reapField:
		return Reap
	default:
		return Other
	}
}

// AppendWrite appends the Command of a write (W1 path of a write), or the [tree.FieldError] of its check.
func AppendWrite(b []byte, w tree.NumberedWrite) ([]byte, error) {
	body, err := AppendBody(nil, w)
	if err != nil {
		return b, err
	}
	return AppendNumbered(b, w, body), nil
}

// AppendBody appends the body of a write's Command: the part that stays the same when a node sends the write again. The
// session, the attachment and the numbers are not part of the body. A void has no body. The error is the
// [tree.FieldError] of the write's check.
func AppendBody(b []byte, w tree.NumberedWrite) ([]byte, error) {
	if err := w.Check(); err != nil {
		return b, err
	}
	b = appendPrincipals(b, 5, w.Principals)
	b = appendTransaction(b, 6, w.Transaction)
	if w.Will != nil {
		var at int
		b, at = fields.Begin(b, 7)
		b = appendTransaction(b, 1, w.Will.Transaction)
		b = flag(b, 2, w.Will.OnClose)
		b = fields.End(b, at)
	}
	return b, nil
}

// AppendNumbered appends the Command of a write with a body. From the write it uses only the session, the attachment,
// the numbers, ReadsBefore and Void.
func AppendNumbered(b []byte, w tree.NumberedWrite, body []byte) []byte {
	field := protowire.Number(writeField)
	if w.Void {
		field = voidField
	}
	b, whole := fields.Begin(b, field)
	b = fields.Fixed64(b, 1, w.Session)
	b = fields.Varint(b, 2, w.Attachment)
	b = fields.Varint(b, 3, w.Number)
	b = fields.Varint(b, 4, w.Acked)
	b = flag(append(b, body...), 8, w.ReadsBefore)
	return fields.End(b, whole)
}

// ParseWrite reads and checks the Command that [AppendWrite] appends.
func ParseWrite(command []byte) (tree.NumberedWrite, error) {
	r := fields.Read(command)
	var w tree.NumberedWrite
	m, ok := r.Message(writeField)
	if !ok {
		m, ok = r.Message(voidField)
		w.Void = ok
	}
	w.Session, w.Attachment, w.Number, w.Acked = m.Fixed64(1), m.Varint(2), m.Varint(3), m.Varint(4)
	w.Principals = readPrincipals(&m, 5)
	w.Transaction = readTransaction(&m, 6)
	if will, has := m.Message(7); has {
		w.Will = &tree.Will{Transaction: readTransaction(&will, 1), OnClose: will.Bool(2)}
		ok = ok && will.End()
	}
	w.ReadsBefore = m.Bool(8)
	if !ok || !m.End() || !r.End() {
		return tree.NumberedWrite{}, malformed("write")
	}
	if err := w.Check(); err != nil {
		return tree.NumberedWrite{}, err
	}
	return w, nil
}

// AppendAcknowledge appends the Command that acknowledges results of sessions (X3 kept results): 1 to
// [tree.MaxAcknowledgements], each with a number above 0.
func AppendAcknowledge(b []byte, all []tree.Acknowledgement) ([]byte, error) {
	if err := checkAcknowledge(all); err != nil {
		return b, err
	}
	b, whole := fields.Begin(b, acknowledgeField)
	b, at := fields.Begin(b, 1)
	for _, one := range all {
		b = protowire.AppendFixed64(b, one.Session)
	}
	b = fields.End(b, at)
	b, at = fields.Begin(b, 2)
	for _, one := range all {
		b = protowire.AppendVarint(b, one.UpTo)
	}
	return fields.End(fields.End(b, at), whole), nil
}

func checkAcknowledge(all []tree.Acknowledgement) error {
	if len(all) == 0 || len(all) > tree.MaxAcknowledgements {
		return outOf("acknowledge.sessions", len(all), "1 to 1,024")
	}
	for _, one := range all {
		switch {
		case one.Session == 0:
			return outOf("acknowledge.sessions", one.Session, "not 0")
		case one.UpTo == 0:
			return outOf("acknowledge.up_to", one.UpTo, "1 or more")
		}
	}
	return nil
}

// ParseAcknowledge reads and checks the Command that [AppendAcknowledge] appends.
func ParseAcknowledge(command []byte) ([]tree.Acknowledgement, error) {
	r := fields.Read(command)
	m, ok := r.Message(acknowledgeField)
	sessions, _ := m.Bytes(1)
	upTo, _ := m.Bytes(2)
	if !ok || !m.End() || !r.End() || len(sessions)%8 != 0 || len(sessions) > 8*tree.MaxAcknowledgements {
		return nil, malformed("acknowledge")
	}
	all := make([]tree.Acknowledgement, len(sessions)/8)
	for i := range all {
		all[i].Session, _ = protowire.ConsumeFixed64(sessions[8*i:])
		var n int
		if all[i].UpTo, n = protowire.ConsumeVarint(upTo); n < 0 {
			return nil, malformed("acknowledge.up_to")
		}
		upTo = upTo[n:]
	}
	if len(upTo) > 0 {
		return nil, malformed("acknowledge.up_to")
	}
	return all, checkAcknowledge(all)
}

// AppendReap appends the Command that removes due entries (D5 TTLs and containers): 1 to [tree.MaxReap] entries, with
// paths of at most [tree.MaxRequest] bytes together.
func AppendReap(b []byte, all []store.Reapable) ([]byte, error) {
	if err := checkReap(all); err != nil {
		return b, err
	}
	b, whole := fields.Begin(b, reapField)
	for _, one := range all {
		var at int
		b, at = fields.Begin(b, 1)
		b = text(b, 1, one.Path)
		b = fields.Fixed64(b, 2, uint64(one.Created))
		b = fields.Fixed64(b, 3, uint64(one.Modified))
		b = fields.Fixed64(b, 4, uint64(one.ChildrenModified))
		b = fields.End(b, at)
	}
	return fields.End(b, whole), nil
}

func checkReap(all []store.Reapable) error {
	if len(all) == 0 || len(all) > tree.MaxReap {
		return outOf("reap.entries", len(all), "1 to 1,000")
	}
	size := 0
	for _, one := range all {
		if err := tree.CheckPath(one.Path); err != nil {
			return &tree.FieldError{Field: "reap.entries.path", Why: err.Error(), Err: err}
		}
		size += len(one.Path)
	}
	if size > tree.MaxRequest {
		return outOf("reap.entries", size, "at most 1 MiB - 1 bytes of paths")
	}
	return nil
}

// ParseReap reads and checks the Command that [AppendReap] appends.
func ParseReap(command []byte) ([]store.Reapable, error) {
	r := fields.Read(command)
	m, ok := r.Message(reapField)
	n := count(&m, 1)
	if n > tree.MaxReap {
		return nil, outOf("reap.entries", n, "1 to 1,000")
	}
	all := make([]store.Reapable, 0, n)
	for one, more := m.Message(1); more; one, more = m.Message(1) {
		all = append(all, store.Reapable{
			Path: readText(&one, 1), Created: tree.Stamp(one.Fixed64(2)), Modified: tree.Stamp(one.Fixed64(3)),
			ChildrenModified: tree.Stamp(one.Fixed64(4)),
		})
		ok = ok && one.End()
	}
	if !ok || !m.End() || !r.End() {
		return nil, malformed("reap")
	}
	return all, checkReap(all)
}
