package sessions

import (
	"encoding/binary"

	"holdfast/fsm/codec"
	"holdfast/fsm/digest"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// Row is one session of a [Table]. The table keeps it packed, so a Row is a copy.
//
// A new field needs a place in Session or Spec and SetSpec, Canonical, Encode, Decode, appendRecord and read, all in this file.
// TestI6EveryFieldIsKept names a field that one of them leaves out.
type Row struct {
	ID session.ID
	// Attachment, Instance and Attempt are set by the newest move (M1 a resume is a move). Before the first move,
	// Attempt is 0 and Instance is the opener's, or 0 if the opener did not send its instance (X5 the opener's
	// instance).
	Attachment uint64
	Instance   uint64
	Attempt    uint64
	// OpenedIndex is the index of the entry that opened the session. OpenedMS is the wall clock of the node that
	// received the open.
	OpenedIndex uint64
	OpenedMS    uint64
	// Labels is nil for a session without labels. Most sessions have none.
	Labels    *session.Labels
	TimeoutMS uint32
	Owner     session.Node
}

// Session returns the session as readers see it.
func (r *Row) Session() session.Session {
	return session.Session{
		ID:          r.ID,
		Spec:        r.Spec(),
		Owner:       r.Owner,
		Attachment:  r.Attachment,
		Instance:    r.Instance,
		OpenedIndex: r.OpenedIndex,
		OpenedAt:    session.TimeOfMS(r.OpenedMS),
	}
}

// Spec returns the session's spec.
func (r *Row) Spec() session.Spec {
	s := session.Spec{Timeout: codec.DurationOf(r.TimeoutMS)}
	if r.Labels != nil {
		s.Labels = *r.Labels
	}
	return s
}

// SetSpec sets the session's spec.
func (r *Row) SetSpec(s session.Spec) {
	r.TimeoutMS, r.Labels = uint32(s.Timeout.Milliseconds()), nil
	if len(s.Labels) > 0 {
		labels := s.Labels // here, so that a spec without labels allocates nothing
		r.Labels = &labels
	}
}

// Cost returns the bytes that the session counts against the capacity (O4 state limits).
func (r *Row) Cost() uint64 {
	s := r.Spec()
	return session.SessionBytes + s.SpecBytes()
}

// Canonical returns the bytes that the digest has of the session. It overwrites b.
func (r *Row) Canonical(b []byte) []byte {
	b = append(b[:0], digest.KindSession)
	b = digest.AppendUint64s(b, uint64(r.ID), r.Attachment, r.Instance, r.Attempt, r.OpenedIndex, r.OpenedMS)
	b = binary.BigEndian.AppendUint32(b, r.TimeoutMS)
	b = append(b, byte(r.Owner))
	if r.Labels == nil {
		return append(b, 0)
	}
	return digest.AppendLabels(b, *r.Labels)
}

// Encode sets m to the session's record in a snapshot. It leaves the fields of extensions to the caller.
func (r *Row) Encode(m *logv1.Session) {
	spec := r.Spec()
	m.TimeoutMs, m.Labels = codec.SpecProto(&spec)
	m.Id, m.Attachment, m.Owner = uint64(r.ID), r.Attachment, uint32(r.Owner)
	m.Instance, m.Attempt, m.OpenedIndex, m.OpenedMs = r.Instance, r.Attempt, r.OpenedIndex, r.OpenedMS
}

// Decode is the inverse of [Row.Encode]. It checks the ranges of the fields.
func Decode(m *logv1.Session) (*Row, error) {
	owner, err := codec.NodeFrom("owner", m.GetOwner())
	if err != nil {
		return nil, err
	}
	spec, err := codec.SpecFrom(m)
	switch {
	case err != nil:
		return nil, err
	case spec.Timeout == 0 || spec.Timeout > session.MaxTimeout:
		return nil, codec.OutOfRange("timeout_ms", "1 ms to "+session.MaxTimeout.String())
	}
	r := &Row{
		ID: session.ID(m.GetId()), Attachment: m.GetAttachment(), Owner: owner,
		Instance: m.GetInstance(), Attempt: m.GetAttempt(), OpenedIndex: m.GetOpenedIndex(), OpenedMS: m.GetOpenedMs(),
	}
	r.SetSpec(spec)
	return r, nil
}

// A record is a packed Row. A record has the differences from the base of its block. They are small, because clients
// opened most neighbours one after the other. A session without labels and without moves takes some 11 bytes; a Row
// takes 64.
//
//	byte       length of the rest, at most 255
//	byte       which of the parts below the record has
//	uvarint    ID - base.id
//	varint     Attachment - base.attachment
//	varint     OpenedIndex - base.openedIndex
//	varint     OpenedMS - the milliseconds in the id, unless 0 (hasMS)
//	uvarint    TimeoutMS, unless it is the base's (hasTimeout)
//	byte       Owner, unless it is the id's node (hasOwner)
//	8 bytes    Instance, little-endian, and a uvarint, Attempt, unless both are 0 (hasMove)
//	the rest   Labels, unless the session has none (hasLabels) or block.far has them (hasFar)
//
// Differences are modulo 2^64, so a record can hold any value of a field.
const (
	hasMS = 1 << iota
	hasTimeout
	hasOwner
	hasMove
	hasLabels
	hasFar
)

// appendRecord appends the record of r. Labels that are too large for the record are returned in far.
func (b *base) appendRecord(to []byte, r *Row) (record []byte, far string) {
	start := len(to)
	to = append(to, 0, 0)
	parts := byte(0)
	to = binary.AppendUvarint(to, uint64(r.ID-b.id))
	to = binary.AppendVarint(to, int64(r.Attachment-b.attachment))
	to = binary.AppendVarint(to, int64(r.OpenedIndex-b.openedIndex))
	if d := r.OpenedMS - r.ID.MS(); d != 0 {
		parts |= hasMS
		to = binary.AppendVarint(to, int64(d))
	}
	if r.TimeoutMS != b.timeoutMS {
		parts |= hasTimeout
		to = binary.AppendUvarint(to, uint64(r.TimeoutMS))
	}
	if r.Owner != r.ID.Node() {
		parts |= hasOwner
		to = append(to, byte(r.Owner))
	}
	if r.Instance != 0 || r.Attempt != 0 {
		parts |= hasMove
		to = binary.LittleEndian.AppendUint64(to, r.Instance)
		to = binary.AppendUvarint(to, r.Attempt)
	}
	if r.Labels != nil {
		body := len(to)
		to = appendLabels(to, *r.Labels)
		if len(to)-body > nearLabels {
			parts |= hasFar
			far = string(to[body:])
			to = to[:body]
		} else {
			parts |= hasLabels
		}
	}
	to[start], to[start+1] = byte(len(to)-start-1), parts
	return to, far
}

// read unpacks the record of the cursor into r.
func (c *cursor) read(r *Row) {
	f := fields{c.rest}
	*r = Row{
		ID: c.id, TimeoutMS: c.block.base.timeoutMS, Owner: c.id.Node(), OpenedMS: c.id.MS(),
		Attachment: c.block.base.attachment + uint64(f.varint()), OpenedIndex: c.block.base.openedIndex + uint64(f.varint()),
	}
	if c.parts&hasMS != 0 {
		r.OpenedMS += uint64(f.varint())
	}
	if c.parts&hasTimeout != 0 {
		r.TimeoutMS = uint32(f.uvarint())
	}
	if c.parts&hasOwner != 0 && len(f.rest) > 0 {
		r.Owner, f.rest = session.Node(f.rest[0]), f.rest[1:]
	}
	if c.parts&hasMove != 0 && len(f.rest) >= 8 {
		r.Instance, f.rest = binary.LittleEndian.Uint64(f.rest), f.rest[8:]
		r.Attempt = f.uvarint()
	}
	switch {
	case c.parts&hasLabels != 0:
		r.Labels = readLabels(string(f.rest))
	case c.parts&hasFar != 0 && c.far < len(c.block.far):
		r.Labels = readLabels(c.block.far[c.far])
	}
}

// appendLabels appends the length and the bytes of each label's key and value.
func appendLabels(to []byte, labels session.Labels) []byte {
	for _, l := range labels {
		to = append(binary.AppendUvarint(to, uint64(len(l.Key))), l.Key...)
		to = append(binary.AppendUvarint(to, uint64(len(l.Value))), l.Value...)
	}
	return to
}

// readLabels is the inverse of appendLabels. It returns nil when the bytes are damaged. The texts share one allocation.
func readLabels(encoded string) *session.Labels {
	var labels session.Labels
	for rest := encoded; rest != ""; {
		var l session.Label
		var ok bool
		if l.Key, rest, ok = readText(rest); ok {
			l.Value, rest, ok = readText(rest)
		}
		if !ok {
			return nil
		}
		labels = append(labels, l)
	}
	return &labels
}

func readText(s string) (text, rest string, ok bool) {
	var length, shift uint64
	for i := range min(len(s), 3) { // a text has less than 2^21 bytes
		length |= uint64(s[i]&0x7f) << shift
		if s[i] < 0x80 {
			s = s[i+1:]
			if uint64(len(s)) < length {
				return "", "", false
			}
			return s[:length], s[length:], true
		}
		shift += 7
	}
	return "", "", false
}

// fields reads numbers. A damaged number is 0.
type fields struct{ rest []byte }

func (f *fields) uvarint() uint64 {
	v, n := binary.Uvarint(f.rest)
	f.rest = f.rest[max(n, 0):]
	return v
}

func (f *fields) varint() int64 {
	v, n := binary.Varint(f.rest)
	f.rest = f.rest[max(n, 0):]
	return v
}
