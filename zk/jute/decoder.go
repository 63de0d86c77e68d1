package jute

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrProtocol is the error of a client that does not speak ZooKeeper's protocol.
var ErrProtocol = errors.New("not ZooKeeper's protocol")

// FieldError says which field of a record is wrong, and how.
type FieldError struct{ Field, Why string }

func (e *FieldError) Error() string { return e.Field + " " + e.Why }

// Decoder reads primitives from a frame. The first error stays, and later reads return zero.
type Decoder struct {
	rest []byte
	err  error
}

// NewDecoder returns a decoder of frame. Its results do not alias the frame.
func NewDecoder(frame []byte) *Decoder { return &Decoder{rest: frame} }

// Err returns the first error.
func (d *Decoder) Err() error { return d.err }

// Left returns how many bytes were not read.
func (d *Decoder) Left() int { return len(d.rest) }

func (d *Decoder) fail(field, format string, args ...any) {
	if d.err == nil {
		d.err = &FieldError{Field: field, Why: fmt.Sprintf(format, args...)}
	}
	d.rest = nil
}

// take returns the next n bytes, nil after an error.
func (d *Decoder) take(field string, n int) []byte {
	if d.err != nil {
		return nil
	}
	if n > len(d.rest) {
		d.fail(field, "needs %d bytes, and %d are left of the frame", n, len(d.rest))
		return nil
	}
	next := d.rest[:n]
	d.rest = d.rest[n:]
	return next
}

// Int reads 32 bits.
func (d *Decoder) Int(field string) int32 {
	b := d.take(field, 4)
	if b == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b)) //nolint:gosec // two's complement on the wire
}

// Long reads 64 bits.
func (d *Decoder) Long(field string) int64 {
	b := d.take(field, 8)
	if b == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b)) //nolint:gosec // two's complement on the wire
}

// Bool reads one byte; every byte but 0 is true.
func (d *Decoder) Bool(field string) bool {
	b := d.take(field, 1)
	return b != nil && b[0] != 0
}

// Buffer reads bytes; nil for null.
func (d *Decoder) Buffer(field string) []byte {
	n := d.Int(field)
	if d.err != nil || n == -1 {
		return nil
	}
	if n < 0 {
		d.fail(field, "has the length %d: must be -1 or more", n)
		return nil
	}
	b := d.take(field, int(n))
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, n), b...)
}

// String reads text; null is empty. Text must be UTF-8 (N-04).
func (d *Decoder) String(field string) string {
	n := d.Int(field)
	if d.err != nil || n == -1 {
		return ""
	}
	if n < 0 {
		d.fail(field, "has the length %d: must be -1 or more", n)
		return ""
	}
	b := d.take(field, int(n))
	if !utf8.Valid(b) {
		d.fail(field, "must be UTF-8")
		return ""
	}
	return string(b)
}

// count reads the length of a vector whose elements have at least size bytes each; null is empty.
func (d *Decoder) count(field string, size int) int {
	n := d.Int(field)
	switch {
	case d.err != nil || n == -1:
		return 0
	case n < 0:
		d.fail(field, "has the length %d: must be -1 or more", n)
		return 0
	case int(n) > len(d.rest)/size:
		d.fail(field, "has %d elements, and the rest of the frame holds at most %d", n, len(d.rest)/size)
		return 0
	}
	return int(n)
}

// Strings reads a vector of strings.
func (d *Decoder) Strings(field string) []string {
	n := d.count(field, 4)
	if n == 0 {
		return nil
	}
	all := make([]string, 0, n)
	for range n {
		all = append(all, d.String(field))
	}
	return all
}
