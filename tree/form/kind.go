package form

import "google.golang.org/protobuf/encoding/protowire"

// IsRecord reports whether a snapshot's Record is one that this package reads: of a writer or of an entry. It says
// nothing of what comes behind its tag.
func IsRecord(record []byte) bool {
	number, _, n := protowire.ConsumeTag(record)
	return n > 0 && (number == writerRecord || number == entryRecord)
}

// IsWriter reports whether a snapshot's Record is that of a writer.
func IsWriter(record []byte) bool {
	number, _, n := protowire.ConsumeTag(record)
	return n > 0 && number == writerRecord
}
