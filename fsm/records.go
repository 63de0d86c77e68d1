package fsm

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"holdfast/fsm/codec"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/tree/form"
)

// recordReader reads the records of a snapshot one by one.
type recordReader struct {
	r       *bufio.Reader
	scratch []byte
	count   uint64
}

// magic reads and checks the magic at the beginning of the file.
func (r *recordReader) magic() error {
	b := make([]byte, len(snapshotMagic))
	if _, err := io.ReadFull(r.r, b); err != nil {
		return fmt.Errorf("magic: %w", cutShort(err))
	}
	if string(b) != snapshotMagic {
		return codec.Corrupt("not a snapshot: bad magic %q", b)
	}
	return nil
}

// record is one record: a message, or the bytes of a record that package tree/form decodes.
type record struct {
	*logv1.Record
	treeRecord []byte
}

// next reads the next record, and checks its length, its checksum and its fields.
func (r *recordReader) next() (record, error) {
	message, err := r.message()
	if err != nil {
		return record{}, err
	}
	r.count++
	return recordOf(message)
}

// recordOf decodes the message of a record. A record of the tree shares the bytes.
func recordOf(message []byte) (record, error) {
	if form.IsRecord(message) {
		return record{treeRecord: message}, nil
	}
	m := &logv1.Record{}
	if err := proto.Unmarshal(message, m); err != nil {
		return record{}, fmt.Errorf("message: %w", err)
	}
	return record{Record: m}, codec.NoUnknownFields(m)
}

// message reads the message of the next record, and checks its length and checksum. The next call overwrites the
// message.
func (r *recordReader) message() ([]byte, error) {
	length, err := binary.ReadUvarint(r.r)
	if err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, codec.Corrupt("length: %v", err)
		}
		return nil, fmt.Errorf("length: %w", cutShort(err))
	}
	if length > maxRecordSize {
		return nil, codec.Corrupt("length %d is above the limit of %d bytes", length, maxRecordSize)
	}
	var sum [4]byte
	if _, err := io.ReadFull(r.r, sum[:]); err != nil {
		return nil, fmt.Errorf("checksum: %w", cutShort(err))
	}
	if uint64(cap(r.scratch)) < length {
		r.scratch = make([]byte, max(length, min(2*uint64(cap(r.scratch)), maxRecordSize)))
	}
	message := r.scratch[:length]
	if _, err := io.ReadFull(r.r, message); err != nil {
		return nil, fmt.Errorf("message: %w", cutShort(err))
	}
	want := binary.LittleEndian.Uint32(sum[:])
	if got := recordChecksum(protowire.AppendVarint(nil, length), message); got != want {
		return nil, codec.Corrupt("the message has checksum %08x, and the file says %08x", got, want)
	}
	return message, nil
}

// cutShort replaces the error of a file that ends inside a record. It returns other errors unchanged.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return codec.Corrupt("the file is cut short")
	}
	return err
}

// recordWriter writes the records of a snapshot until the first error, which it keeps.
type recordWriter struct {
	w       *bufio.Writer
	prefix  []byte // scratch
	scratch []byte
	count   uint64
	err     error
}

func (w *recordWriter) record(r *logv1.Record) {
	if w.err != nil {
		return
	}
	message, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(w.scratch[:0], r)
	if err != nil {
		w.err = fmt.Errorf("encoding record %d: %w", w.count, err)
		return
	}
	w.scratch = message
	w.encoded(message)
}

// encoded writes a record with an encoded message.
func (w *recordWriter) encoded(message []byte) {
	length := protowire.AppendVarint(w.prefix[:0], uint64(len(message)))
	w.prefix = binary.LittleEndian.AppendUint32(length, recordChecksum(length, message))
	w.bytes(w.prefix)
	w.bytes(message)
	w.count++
}

func (w *recordWriter) bytes(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
}

func recordChecksum(length, message []byte) uint32 {
	return crc32.Update(codec.Checksum(length), crc32.MakeTable(crc32.Castagnoli), message)
}
