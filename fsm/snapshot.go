package fsm

import (
	"bufio"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"holdfast/fsm/codec"
	"holdfast/fsm/requests"
	"holdfast/fsm/sessions"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
	"holdfast/tree/form"
	"holdfast/tree/store"
	"holdfast/tree/writers"
)

// A snapshot file is
//
//	"holdfast snapshot\n"    18 bytes
//	record, record, ...      to the end of the file
//
// and a record is
//
//	uvarint    length of the message, at most 2 MiB
//	4 bytes    CRC-32C of the length's bytes and the message, little-endian
//	message    holdfast.log.v1.Record
//
// The records are, in this order: one Header; a Mark for each node number that was ever used, by node number; the
// Sessions, by id; the Writers, by session; the TreeEntries, by depth and path (D7 tree snapshots); the Certificates,
// by number; the OpenRequests, oldest first; one Trailer, after which the file ends. The Trailer holds the number of
// records before it and the digest of the state. The same state gives the same bytes.
//
// Header.version is the number of this format. A node refuses a file with another number, or with an unknown feature
// level (W8 feature level).
const (
	snapshotMagic = "holdfast snapshot\n"
	maxRecordSize = form.MaxRecord
	// snapshotBuffer is the size of the buffer through which a snapshot is written or read.
	snapshotBuffer = 64 << 10
)

// snapshot is a frozen state that Raft writes to disk.
type snapshot struct {
	view *View
	// verify returns an error when the view is damaged: Persist then writes nothing.
	verify func() error
}

// Persist writes the snapshot. Raft calls it while the state applies entries.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	err := s.verify()
	if err == nil {
		err = writeSnapshot(sink, s.view)
	}
	if err != nil {
		if cancelErr := sink.Cancel(); cancelErr != nil {
			return fmt.Errorf("writing snapshot at index %d: %w; cancelling it: %w", s.view.index, err, cancelErr)
		}
		return fmt.Errorf("writing snapshot at index %d: %w", s.view.index, err)
	}
	if err := sink.Close(); err != nil {
		return fmt.Errorf("closing snapshot at index %d: %w", s.view.index, err)
	}
	return nil
}

// Release does nothing: a view is garbage when it has no readers.
func (s *snapshot) Release() {}

func writeSnapshot(w io.Writer, v *View) error {
	rw := &recordWriter{w: bufio.NewWriterSize(w, snapshotBuffer)}
	rw.bytes([]byte(snapshotMagic))
	t := &v.tables
	header := &logv1.Header{
		Version: session.SnapshotFormat, Index: v.index, Term: v.term, Attachment: t.attachment,
		ClusterKey: codec.KeyBytes(t.key), Certificates: t.issued, ForgottenIndex: t.forgotten,
		MaxSessions: t.capacity.MaxSessions, MaxStateBytes: t.capacity.MaxBytes,
		Level: t.shown.Level, Limits: codec.LimitsProto(t.shown.Limits),
	}
	setTime(header, t.shown.Time)
	rw.record(&logv1.Record{Record: &logv1.Record_Header{Header: header}})
	for node, mark := range t.marks {
		if mark != 0 {
			m := &logv1.Mark{Node: uint32(node), Id: uint64(mark)}
			rw.record(&logv1.Record{Record: &logv1.Record_Mark{Mark: m}})
		}
	}
	writeSessions(rw, t)
	writeTree(rw, t.shown)
	for _, c := range t.certificates.Items {
		rw.record(&logv1.Record{Record: &logv1.Record_Certificate{Certificate: c.Encode()}})
	}
	writeRequests(rw, t)
	digest := t.digest()
	trailer := &logv1.Trailer{Records: rw.count, Digest: digest[:]}
	rw.record(&logv1.Record{Record: &logv1.Record_Trailer{Trailer: trailer}})
	if rw.err != nil {
		return rw.err
	}
	return rw.w.Flush()
}

func writeTree(w *recordWriter, t *Tree) {
	var b []byte
	t.Writers.Records(func(one writers.Record) bool {
		b = form.AppendWriter(b[:0], &one)
		w.encoded(b)
		return w.err == nil
	})
	var lists form.Lists
	t.Root.Records(func(one store.Record) bool {
		b = lists.AppendEntry(b[:0], &one)
		w.encoded(b)
		return w.err == nil
	})
}

func writeRequests(w *recordWriter, t *tables) {
	m := &logv1.OpenRequest{}
	r := &logv1.Record{Record: &logv1.Record_OpenRequest{OpenRequest: m}}
	t.requests.All(func(q requests.Request) bool {
		q.Encode(m)
		w.record(r)
		return w.err == nil
	})
}

func writeSessions(w *recordWriter, t *tables) {
	m := &logv1.Session{}
	r := &logv1.Record{Record: &logv1.Record_Session{Session: m}}
	t.sessions.Ascend(0, func(s *sessions.Row) bool {
		s.Encode(m)
		m.KeptMs = uint64(t.shown.ExtendedUntil(s.ID).Milliseconds())
		w.record(r)
		return w.err == nil
	})
}
