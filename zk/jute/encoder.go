package jute

import "encoding/binary"

// Encoder appends primitives to a frame. The zero Encoder is empty.
type Encoder struct{ bytes []byte }

// frameHead is the length of a frame's length.
const frameHead = 4

// NewFrame returns an encoder that reserves space for the frame's length; see [Encoder.Frame].
func NewFrame() *Encoder { return &Encoder{bytes: make([]byte, frameHead, 64)} }

// Bytes returns the appended bytes.
func (e *Encoder) Bytes() []byte { return e.bytes }

// Frame fills in the length of a frame that [NewFrame] began, and returns the frame.
func (e *Encoder) Frame() []byte {
	binary.BigEndian.PutUint32(e.bytes, uint32(len(e.bytes)-frameHead)) //nolint:gosec // a reply is far below 2 GiB
	return e.bytes
}

// Int appends 32 bits.
func (e *Encoder) Int(v int32) {
	e.bytes = binary.BigEndian.AppendUint32(e.bytes, uint32(v)) //nolint:gosec // two's complement on the wire
}

// Long appends 64 bits.
func (e *Encoder) Long(v int64) {
	e.bytes = binary.BigEndian.AppendUint64(e.bytes, uint64(v)) //nolint:gosec // two's complement on the wire
}

// Bool appends one byte.
//
//nolint:revive // flag-parameter: the value to encode
func (e *Encoder) Bool(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	e.bytes = append(e.bytes, b)
}

// Buffer appends bytes; nil is null.
func (e *Encoder) Buffer(b []byte) {
	if b == nil {
		e.Int(-1)
		return
	}
	e.Int(int32(len(b))) //nolint:gosec // bounded by the size of a frame
	e.bytes = append(e.bytes, b...)
}

// String appends text.
func (e *Encoder) String(s string) {
	e.Int(int32(len(s))) //nolint:gosec // bounded by the size of a frame
	e.bytes = append(e.bytes, s...)
}

// Strings appends a vector of strings.
func (e *Encoder) Strings(all []string) {
	e.Int(int32(len(all))) //nolint:gosec // bounded by the size of a frame
	for _, s := range all {
		e.String(s)
	}
}

// Append appends the bytes of another encoder.
func (e *Encoder) Append(b []byte) { e.bytes = append(e.bytes, b...) }
