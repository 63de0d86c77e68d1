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

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/tree/form"
)

// recordReader reads a snapshot's records one by one.
type recordReader struct {
	r       *bufio.Reader
	scratch []byte
	count   uint64
}

// magic reads the magic at the beginning of the file.
func (r *recordReader) magic() error {
	b := make([]byte, len(snapshotMagic))
	if _, err := io.ReadFull(r.r, b); err != nil {
		return fmt.Errorf("magic: %w", cutShort(err))
	}
	if string(b) != snapshotMagic {
		return corrupt("not a snapshot: bad magic %q", b)
	}
	return nil
}

// record is one record: a message, or the bytes of one that package tree/form reads.
type record struct {
	*logv1.Record
	ofTree []byte
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

// recordOf reads the message of a record. A record of the tree shares the bytes.
func recordOf(message []byte) (record, error) {
	if form.IsRecord(message) {
		return record{ofTree: message}, nil
	}
	m := &logv1.Record{}
	if err := proto.Unmarshal(message, m); err != nil {
		return record{}, fmt.Errorf("message: %w", err)
	}
	return record{Record: m}, noUnknownFields(m)
}

// message reads the message of the next record, and checks its length and its checksum. The next call overwrites it.
func (r *recordReader) message() ([]byte, error) {
	length, err := binary.ReadUvarint(r.r)
	if err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, corrupt("length: %v", err)
		}
		return nil, fmt.Errorf("length: %w", cutShort(err))
	}
	if length > maxRecordSize {
		return nil, corrupt("length %d is above the limit of %d bytes", length, maxRecordSize)
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
		return nil, corrupt("the message has checksum %08x, and the file says %08x", got, want)
	}
	return message, nil
}

// cutShort returns the error of a file that ends inside a record. It returns other errors as they are.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return corrupt("the file is cut short")
	}
	return err
}

// recordWriter writes a snapshot's records until the first error, which it keeps.
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

// encoded writes a record whose message is there already.
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
	return crc32.Update(checksum(length), crc32.MakeTable(crc32.Castagnoli), message)
}
