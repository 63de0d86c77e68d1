package form

import "google.golang.org/protobuf/encoding/protowire"

// IsRecord reports whether a snapshot's Record is of a kind that this package reads: a writer or an entry. It reads
// only the tag.
func IsRecord(record []byte) bool {
	number, _, n := protowire.ConsumeTag(record)
	return n > 0 && (number == writerRecord || number == entryRecord)
}

// IsWriter reports whether a snapshot's Record is the record of a writer. It reads only the tag.
func IsWriter(record []byte) bool {
	number, _, n := protowire.ConsumeTag(record)
	return n > 0 && number == writerRecord
}
