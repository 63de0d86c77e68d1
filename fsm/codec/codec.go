// Package codec converts the values that log entries and snapshots share to the messages of holdfast/log/v1 and back,
// and checks their ranges. An entry and a snapshot therefore accept the same labels, keys, limits and durations.
//
// XProto and XMS encode, XFrom and XOf decode. A decoder returns a [session.FieldError] that names the field, and
// refuses a field that a newer release has added.
package codec

import (
	"fmt"
	"hash/crc32"
)

// Checksum returns the CRC-32C of b.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// CorruptError reports bytes that have changed since a node wrote them: no release writes such bytes.
type CorruptError struct{ text string }

func (e *CorruptError) Error() string { return e.text }

// Corrupt returns a [CorruptError].
func Corrupt(format string, args ...any) error { return &CorruptError{fmt.Sprintf(format, args...)} }
