package fields

import "google.golang.org/protobuf/encoding/protowire"

// Reader reads the fields of a message in ascending order, each at most once unless it is repeated, as the functions of
// this package append them. It turns bad when the message has another form. A field that is absent reads as zero.
//
// A Reader takes a number that has more bytes than it needs, and a zero that is present. So messages with other bytes
// may say the same.
type Reader struct {
	b   []byte
	bad bool
}

// Read returns a Reader of a message.
func Read(b []byte) Reader { return Reader{b: b} }

// End reports whether everything was read, and in the form that this package writes.
func (r *Reader) End() bool { return !r.bad && len(r.b) == 0 }

// More reports whether there is something left to read.
func (r *Reader) More() bool { return !r.bad && len(r.b) > 0 }

// Refuse turns the Reader bad.
func (r *Reader) Refuse() { r.bad = true }

// next reports whether the next field has a number and a type, and takes its tag if so.
func (r *Reader) next(number protowire.Number, kind protowire.Type) bool {
	if r.bad || len(r.b) == 0 {
		return false
	}
	at, is, n := protowire.ConsumeTag(r.b)
	if n < 0 {
		r.bad = true
		return false
	}
	if at != number || is != kind {
		return false
	}
	r.b = r.b[n:]
	return true
}

// took takes n bytes, fewer than 0 of which mean that they are malformed.
func (r *Reader) took(n int) {
	if n < 0 {
		r.bad = true
		return
	}
	r.b = r.b[n:]
}

// Varint reads an integer.
func (r *Reader) Varint(number protowire.Number) (v uint64) {
	if r.next(number, protowire.VarintType) {
		var n int
		v, n = protowire.ConsumeVarint(r.b)
		r.took(n)
	}
	return v
}

// Uint32 reads an integer of at most 32 bits.
func (r *Reader) Uint32(number protowire.Number) uint32 {
	v := r.Varint(number)
	r.bad = r.bad || v > 1<<32-1
	return uint32(v)
}

// Bool reads a bool.
func (r *Reader) Bool(number protowire.Number) bool {
	v := r.Varint(number)
	r.bad = r.bad || v > 1
	return v == 1
}

// Fixed64 reads a number of eight bytes.
func (r *Reader) Fixed64(number protowire.Number) (v uint64) {
	if r.next(number, protowire.Fixed64Type) {
		var n int
		v, n = protowire.ConsumeFixed64(r.b)
		r.took(n)
	}
	return v
}

// Bytes reads bytes, and reports whether there are any. They are part of the message that is read.
func (r *Reader) Bytes(number protowire.Number) (b []byte, ok bool) {
	if !r.next(number, protowire.BytesType) {
		return nil, false
	}
	b, n := protowire.ConsumeBytes(r.b)
	r.took(n)
	return b, !r.bad
}

// Message returns a Reader of the message in a field, and whether there is one.
func (r *Reader) Message(number protowire.Number) (Reader, bool) {
	b, ok := r.Bytes(number)
	return Reader{b: b}, ok
}
