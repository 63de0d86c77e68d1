// Package fields writes and reads messages of protocol buffers without their generated code, for the few messages that
// are most of the work. The bytes are those of the generated code. A reader takes what the writers here make, and
// some other encodings of the same values. Whatever else there is goes through the generated code.
package fields

import "google.golang.org/protobuf/encoding/protowire"

// Begin appends the tag of a message and room for a length of one byte. at is where the message begins, see [End].
func Begin(b []byte, number protowire.Number) (_ []byte, at int) {
	b = append(protowire.AppendTag(b, number, protowire.BytesType), 0)
	return b, len(b)
}

// End fills in the length of the message that begins at at and ends with b.
func End(b []byte, at int) []byte {
	length := len(b) - at
	if more := protowire.SizeVarint(uint64(length)) - 1; more > 0 {
		b = append(b, make([]byte, more)...)
		copy(b[at+more:], b[at:at+length])
	}
	protowire.AppendVarint(b[:at-1], uint64(length))
	return b
}

// Varint appends an integer or a bool, unless it is 0.
func Varint(b []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), v)
}

// Fixed64 appends a number of eight bytes, unless it is 0.
func Fixed64(b []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendFixed64(protowire.AppendTag(b, number, protowire.Fixed64Type), v)
}

// Bytes appends bytes, unless there are none.
func Bytes(b []byte, number protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
}
