// Package backup is the form of a backup: what a file of one begins with, and how its bytes are checked. It knows
// nothing of the records in it: package fsm writes and reads them.
//
// A file is
//
//	"holdfast backup\n"      16 bytes
//	uvarint                  length of the header, at most 4 KiB
//	4 bytes                  CRC-32C of the length's bytes and the header, little-endian
//	header                   holdfast.v1.SnapshotHeader
//	records                  header.bytes bytes, whose SHA-256 is header.sha256; then the file ends
//
// The records are a snapshot in the form of fsm/snapshot.go, without cluster key and request ids. header.format is
// [session.BackupFormat]; every other number is refused.
package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

const (
	magic = "holdfast backup\n"
	// MaxHeader bounds a header, in bytes.
	MaxHeader = 4 << 10
	// MaxChunk is the size of the largest chunk of a stream, in bytes.
	MaxChunk = 64 << 10
	// IDSize is the size of the name of a frozen copy, in bytes.
	IDSize = 16
)

// Header says what a backup holds. SnapshotHeader in the protocol explains each field.
type Header struct {
	Cluster      string
	Node         session.Node
	Version      string
	TakenAt      time.Time
	Index, Term  uint64
	Confirmed    bool
	FeatureLevel uint32
	Sessions     uint64
	Certificates uint64
	Entries      uint64
	Ephemerals   uint64
	Bytes        uint64
	SHA256       [sha256.Size]byte
	StateDigest  [16]byte
}

// DamagedError says that a file is no whole backup: its bytes have changed since they were written, or some are
// missing.
type DamagedError struct{ text string }

func (e *DamagedError) Error() string { return e.text }

func damaged(format string, args ...any) error { return &DamagedError{fmt.Sprintf(format, args...)} }

// HeaderProto returns a header for the wire and the disk.
func HeaderProto(h Header) *holdfastv1.SnapshotHeader {
	return &holdfastv1.SnapshotHeader{
		Format: session.BackupFormat, ClusterId: h.Cluster, Node: uint32(h.Node), Version: h.Version, TakenAt: timestamppb.New(h.TakenAt),
		Index: h.Index, Term: h.Term, Confirmed: h.Confirmed, FeatureLevel: h.FeatureLevel, Sessions: h.Sessions,
		Certificates: h.Certificates, TreeEntries: h.Entries, TreeEphemerals: h.Ephemerals, Bytes: h.Bytes,
		Sha256: h.SHA256[:], StateDigest: h.StateDigest[:],
	}
}

// HeaderFrom returns the header in m. Errors name its fields; that of another format is a [session.FormatError].
func HeaderFrom(m *holdfastv1.SnapshotHeader) (Header, error) {
	if err := session.CheckFormat("the backup", uint64(m.GetFormat()), session.BackupFormat,
		"use the release that made it"); err != nil {
		return Header{}, err
	}
	h := Header{
		Cluster: m.GetClusterId(), Node: session.Node(m.GetNode()), Version: m.GetVersion(), Index: m.GetIndex(),
		Term: m.GetTerm(), Confirmed: m.GetConfirmed(), FeatureLevel: m.GetFeatureLevel(), Sessions: m.GetSessions(),
		Certificates: m.GetCertificates(), Entries: m.GetTreeEntries(), Ephemerals: m.GetTreeEphemerals(),
		Bytes: m.GetBytes(),
	}
	switch {
	case h.Cluster == "":
		return h, &session.FieldError{Field: "header.cluster_id", Limit: session.Missing}
	case m.GetNode() > uint32(session.MaxNode) || !h.Node.Valid():
		return h, &session.FieldError{Field: "header.node", Limit: "1 to 254"}
	case m.GetTakenAt().CheckValid() != nil:
		return h, &session.FieldError{Field: "header.taken_at", Limit: "a moment"}
	case h.Bytes == 0 || h.Bytes > math.MaxInt64:
		return h, &session.FieldError{Field: "header.bytes", Limit: "1 to 2^63 - 1"}
	case len(m.GetSha256()) != len(h.SHA256):
		return h, &session.FieldError{Field: "header.sha256", Limit: "32 bytes"}
	case len(m.GetStateDigest()) != len(h.StateDigest):
		return h, &session.FieldError{Field: "header.state_digest", Limit: "16 bytes"}
	}
	h.TakenAt = m.GetTakenAt().AsTime()
	copy(h.SHA256[:], m.GetSha256())
	copy(h.StateDigest[:], m.GetStateDigest())
	return h, nil
}

// Checksum returns the checksum of a chunk.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// WriteHeader writes what a file begins with. The records come after it.
func WriteHeader(w io.Writer, h Header) error {
	message, err := proto.MarshalOptions{Deterministic: true}.Marshal(HeaderProto(h))
	if err != nil {
		return fmt.Errorf("encoding the header: %w", err)
	}
	length := protowire.AppendVarint(nil, uint64(len(message)))
	b := append([]byte(magic), length...)
	b = binary.LittleEndian.AppendUint32(b, Checksum(append(length, message...)))
	_, err = w.Write(append(b, message...))
	return err
}

// Reader reads a backup.
type Reader struct {
	// Header is what the file begins with.
	Header Header
	from   *bufio.Reader
	sum    hash.Hash
	read   uint64
}

// NewReader reads the header of a backup.
func NewReader(from io.Reader) (*Reader, error) {
	r := bufio.NewReaderSize(from, MaxChunk)
	start := make([]byte, len(magic))
	switch n, err := io.ReadFull(r, start); {
	case err != nil && !short(err):
		return nil, err
	case n == 0:
		return nil, damaged("the file is empty")
	case !bytes.HasPrefix([]byte(magic), start[:n]):
		return nil, damaged("not a backup: it begins with %q", start[:n])
	case err != nil:
		return nil, cut(err)
	}
	length, err := binary.ReadUvarint(r)
	switch {
	case err != nil && !short(err):
		return nil, damaged("header: length: %v", err)
	case err != nil:
		return nil, cut(err)
	case length > MaxHeader:
		return nil, damaged("header: length %d is above the limit of %d bytes", length, MaxHeader)
	}
	b := make([]byte, 4+length)
	if _, err = io.ReadFull(r, b); err != nil {
		return nil, cut(err)
	}
	message := b[4:]
	if binary.LittleEndian.Uint32(b) != Checksum(append(protowire.AppendVarint(nil, length), message...)) {
		return nil, damaged("header: its checksum is another one")
	}
	m := &holdfastv1.SnapshotHeader{}
	if err = proto.Unmarshal(message, m); err != nil {
		return nil, damaged("header: %v", err)
	}
	h, err := HeaderFrom(m)
	if err != nil {
		return nil, err
	}
	return &Reader{Header: h, from: r, sum: sha256.New()}, nil
}

// Read reads the records. It ends with io.EOF once all were read and had the right checksum, and nothing followed them.
func (r *Reader) Read(b []byte) (int, error) {
	left := r.Header.Bytes - r.read
	if left == 0 {
		return 0, r.end()
	}
	n, err := r.from.Read(b[:min(uint64(len(b)), left)])
	r.sum.Write(b[:n]) // never fails
	r.read += uint64(n)
	if err != nil && short(err) {
		err = damaged("the file is cut short: %d of %d bytes are missing", r.Header.Bytes-r.read, r.Header.Bytes)
	}
	return n, err
}

func (r *Reader) end() error {
	if [sha256.Size]byte(r.sum.Sum(nil)) != r.Header.SHA256 {
		return damaged("the records have SHA-256 %x, and the header says %x", r.sum.Sum(nil), r.Header.SHA256)
	}
	switch _, err := r.from.ReadByte(); {
	case err == nil:
		return damaged("bytes follow the last record")
	case !errors.Is(err, io.EOF):
		return err
	}
	return io.EOF
}

// Close reads what is left of the records, and returns what is wrong with the file: a reader of the records may know
// where they end, and leave the checksum unread.
func (r *Reader) Close() error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// short reports whether a file ended too soon.
func short(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// cut returns the error of a file that ends in its header. It returns other errors as they are.
func cut(err error) error {
	if short(err) {
		return damaged("the file is cut short in its header")
	}
	return err
}
