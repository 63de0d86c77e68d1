package form

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"holdfast/proto/fields"
	"holdfast/tree"
	"holdfast/tree/store"
	"holdfast/tree/writers"
)

// Numbers of the fields of a snapshot's Record.
const (
	writerRecord = 7
	entryRecord  = 8
)

// MaxRecord is the largest length of a record of a snapshot, in bytes (D7 tree snapshots).
const MaxRecord = 2 << 20

// Lists number the access lists of the entries of one snapshot, so that the snapshot has a shared list once, whatever
// number of entries share it. The zero value is ready for a snapshot's first entry. Not safe for concurrent use.
type Lists struct {
	// numbers has the number of each appended list, by the list's bytes.
	numbers map[string]uint64
	// read are the lists that were read. A list's number is its position plus 1.
	read    []tree.ACL
	scratch []byte
}

// AppendEntry appends the Record of an entry of the tree.
func (l *Lists) AppendEntry(b []byte, one *store.Record) []byte {
	b, whole := fields.Begin(b, entryRecord)
	b = text(b, 1, one.Path)
	b = data(b, 2, one.Data)
	b = fields.Fixed64(b, 3, uint64(one.Created))
	b = fields.Varint(b, 4, uint64(one.Modified-one.Created))
	b = fields.Varint(b, 5, uint64(one.ChildrenModified-one.Created))
	b = fields.Varint(b, 6, protowire.EncodeZigZag(one.CreatedMS))
	b = fields.Varint(b, 7, protowire.EncodeZigZag(one.ModifiedMS-one.CreatedMS))
	b = fields.Fixed64(b, 8, one.Owner)
	b = fields.Varint(b, 9, one.Creates)
	b = fields.Varint(b, 10, uint64(one.Children))
	b = fields.Varint(b, 11, uint64(one.Version))
	b = fields.Varint(b, 12, uint64(one.ACLVersion))
	b = fields.Varint(b, 13, uint64(one.LifeMS))
	b = fields.Varint(b, 14, uint64(one.DueMS))
	b = fields.Varint(b, 15, uint64(one.Kind))
	if one.ACL == nil {
		return fields.End(b, whole)
	}
	l.scratch = appendACL(l.scratch[:0], 16, one.ACL)
	if number, known := l.numbers[string(l.scratch)]; known {
		return fields.End(fields.Varint(b, 17, number), whole)
	}
	if l.numbers == nil {
		l.numbers = map[string]uint64{}
	}
	l.numbers[string(l.scratch)] = uint64(len(l.numbers)) + 1
	return fields.End(append(b, l.scratch...), whole)
}

// ParseEntry reads a Record that [Lists.AppendEntry] has appended. The records must come in the order in which they
// were appended. [store.Restorer] checks whether the entry fits into the tree. Entries share lists, which must not be
// modified.
func (l *Lists) ParseEntry(record []byte) (store.Record, error) {
	r := fields.Read(record)
	m, ok := r.Message(entryRecord)
	one := store.Record{Path: readText(&m, 1), Data: readData(&m, 2), Created: tree.Stamp(m.Fixed64(3))}
	one.Modified = one.Created + tree.Stamp(m.Varint(4))
	one.ChildrenModified = one.Created + tree.Stamp(m.Varint(5))
	one.CreatedMS = protowire.DecodeZigZag(m.Varint(6))
	one.ModifiedMS = one.CreatedMS + protowire.DecodeZigZag(m.Varint(7))
	one.Owner, one.Creates, one.Children = m.Fixed64(8), m.Varint(9), m.Uint32(10)
	one.Version, one.ACLVersion = readInt(&m, 11), readInt(&m, 12)
	one.LifeMS, one.DueMS = readInt(&m, 13), readInt(&m, 14)
	one.Kind = tree.Kind(readByte(&m, 15))
	one.ACL = readACL(&m, 16)
	number := m.Varint(17)
	if !ok || !m.End() || !r.End() || one.ACL != nil && number != 0 {
		return store.Record{}, malformed("tree_entry")
	}
	switch {
	case number > uint64(len(l.read)):
		return store.Record{}, outOf("tree_entry.acl_number", number, "that of a list before")
	case number != 0:
		one.ACL = l.read[number-1]
	case one.ACL != nil:
		if err := one.ACL.Check(); err != nil {
			return store.Record{}, &tree.FieldError{Field: "tree_entry.acl", Why: err.Error(), Err: err}
		}
		l.read = append(l.read, one.ACL)
	}
	return one, nil
}

// AppendWriter appends the Record of a session that has written.
func AppendWriter(b []byte, one *writers.Record) []byte {
	b, whole := fields.Begin(b, writerRecord)
	b = fields.Fixed64(b, 1, one.Session)
	b = fields.Varint(b, 2, one.Applied)
	b = fields.Varint(b, 3, one.Floor)
	b = fields.Varint(b, 4, one.Acked)
	for _, result := range one.Results {
		b = protowire.AppendBytes(protowire.AppendTag(b, 5, protowire.BytesType), result)
	}
	if one.Will != nil {
		b = fields.Bytes(b, 6, one.Will.Data)
		b = flag(b, 7, one.Will.OnClose)
	}
	return fields.End(text(b, 8, one.Principal), whole)
}

// ParseWriter reads a Record that [AppendWriter] has appended, and checks each result and the will. [writers.Restorer]
// checks whether the numbers fit together.
func ParseWriter(record []byte) (writers.Record, error) {
	r := fields.Read(record)
	m, ok := r.Message(writerRecord)
	one := writers.Record{Session: m.Fixed64(1)}
	one.Applied, one.Floor, one.Acked = m.Varint(2), m.Varint(3), m.Varint(4)
	n := count(&m, 5)
	if n > tree.MaxUnanswered {
		return writers.Record{}, outOf("writer.results", n, "at most 256")
	}
	if n > 0 {
		one.Results = make([][]byte, 0, n)
		for range n {
			one.Results = append(one.Results, readData(&m, 5))
		}
	}
	will, onClose := readData(&m, 6), m.Bool(7)
	one.Principal = readText(&m, 8)
	if len(one.Principal) > tree.MaxShare {
		return writers.Record{}, outOf("writer.principal", len(one.Principal), fmt.Sprintf("at most %d bytes", tree.MaxShare))
	}
	if !ok || !m.End() || !r.End() || will == nil && onClose {
		return writers.Record{}, malformed("writer")
	}
	for _, result := range one.Results {
		if _, err := ParseResult(result); err != nil {
			return writers.Record{}, err
		}
	}
	if will == nil {
		return one, nil
	}
	one.Will = &writers.Will{Data: will, OnClose: onClose}
	_, err := ParseWill(will)
	return one, err
}

// AppendLimits appends the TreeLimits of a Configure or of a snapshot's header: the message without tag and length.
func AppendLimits(b []byte, l tree.Limits) []byte {
	b = fields.Varint(b, 1, uint64(l.Ephemerals))
	b = fields.Varint(b, 2, uint64(l.Children))
	b = flag(b, 3, l.OpenQuotas)
	return fields.Varint(b, 4, uint64(l.Bytes)) //nolint:gosec // positive
}

// ParseLimits reads and checks the limits that [AppendLimits] appends.
func ParseLimits(b []byte) (tree.Limits, error) {
	r := fields.Read(b)
	ephemerals, children := r.Varint(1), r.Varint(2)
	l := tree.Limits{
		Ephemerals: int(min(ephemerals, math.MaxInt32)), Children: int(min(children, math.MaxInt32)), OpenQuotas: r.Bool(3),
		Bytes: int64(min(r.Varint(4), math.MaxInt64)),
	}
	if !r.End() || max(ephemerals, children) > math.MaxInt32 {
		return tree.Limits{}, malformed("limits")
	}
	return l, l.Check()
}
