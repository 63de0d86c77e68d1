package fsm

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"holdfast/fsm/certificates"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// refuse restores b over a state. Restore must fail with want in the error, and leave the state as it was.
func refuse(t *testing.T, b []byte, want string) {
	t.Helper()
	r := newReplica()
	r.open(t, opening(1))
	before := contents(r)
	o := observe(r)
	err := r.restore(b)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Restore = %v, want an error with %q", err, want)
	}
	if len(r.fatal) != 1 || !errors.Is(err, r.fatal[0]) {
		t.Errorf("Fatal was told %v, want %v once", r.fatal, err)
	}
	if !reflect.DeepEqual(contents(r), before) || len(o.events) != 0 || r.AppliedIndex() != 1 {
		t.Error("a refused snapshot has changed the state")
	}
}

func TestRestoreRefusesEveryCut(t *testing.T) {
	b := furnished(t).snapshot(t)
	for n := range b {
		refuse(t, b[:n], "cut short")
	}
	refuse(t, append(b, 0), "more bytes after the trailer")
}

func TestRestoreRefusesEveryFlippedBit(t *testing.T) {
	b := furnished(t).snapshot(t)
	for i := range b {
		b[i] ^= 1 << (i % 8)
		refuse(t, b, "snapshot is damaged: ")
		b[i] ^= 1 << (i % 8)
	}
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }
func (r failingReader) Close() error             { return nil }

func TestRestoreReportsAFailingDisk(t *testing.T) {
	bad := errors.New("input/output error")
	err := newReplica().Restore(failingReader{bad})
	if !errors.Is(err, bad) || !strings.Contains(err.Error(), "see to the disk") ||
		strings.Contains(err.Error(), "release") {
		t.Errorf("Restore = %v, want %v and what to do", err, bad)
	}
}

// namedSnapshot is a snapshot with a file name, as the node's store returns it. countedSnapshot is Raft's wrapper of
// it.
type namedSnapshot struct{ io.ReadCloser }

func (namedSnapshot) Name() string { return "/data/snapshots/2-9-1/state.bin" }

type countedSnapshot struct{ io.ReadCloser }

func (c countedSnapshot) WrappedReadCloser() io.ReadCloser { return c.ReadCloser }

// The error of an unreadable snapshot names the file, and blames the release only where the release may be at fault.
func TestRestoreNamesTheFile(t *testing.T) {
	good := furnished(t).snapshot(t)
	newer := records(t, good)
	newer[0].GetHeader().Version = 2
	cut := good[:len(good)-70]
	for want, b := range map[string][]byte{
		"snapshot /data/snapshots/2-9-1/state.bin is damaged: record 11: message: the file is cut short": cut,
		"this node's release cannot read snapshot /data/snapshots/2-9-1/state.bin: record 0":             assemble(t, newer),
	} {
		err := newReplica().Restore(countedSnapshot{namedSnapshot{io.NopCloser(bytes.NewReader(b))}})
		if err == nil || !strings.HasPrefix(err.Error(), want) ||
			strings.Contains(want, "damaged") == strings.Contains(err.Error(), "release") {
			t.Errorf("Restore = %v, want %s", err, want)
		}
	}
}

// records returns the records of a snapshot.
func records(t *testing.T, b []byte) []*logv1.Record {
	t.Helper()
	r := recordReader{r: bufio.NewReader(bytes.NewReader(b))}
	if err := r.magic(); err != nil {
		t.Fatal(err)
	}
	var all []*logv1.Record
	for {
		message, err := r.message()
		if err != nil {
			return all
		}
		m := &logv1.Record{}
		if err := proto.Unmarshal(message, m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
}

// assemble returns a snapshot of these records, with the right checksums, whatever the records hold.
func assemble(tb testing.TB, all []*logv1.Record) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := &recordWriter{w: bufio.NewWriter(&b)}
	w.bytes([]byte(snapshotMagic))
	for _, m := range all {
		w.record(m)
	}
	if err := errors.Join(w.err, w.w.Flush()); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestRestoreRefusesWhatMakesNoSense(t *testing.T) {
	// Positions of records in furnished's snapshot.
	const header, mark, first, labelled, certificate, request, trailer = 0, 1, 3, 4, 8, 10, 13
	swap := func(i, j int) func([]*logv1.Record) {
		return func(all []*logv1.Record) { all[i], all[j] = all[j], all[i] }
	}
	set := func(i int, change func(*logv1.Record)) func([]*logv1.Record) {
		return func(all []*logv1.Record) { change(all[i]) }
	}
	withUnknown := func(i int, in func(*logv1.Record) proto.Message) func([]*logv1.Record) {
		return func(all []*logv1.Record) { in(all[i]).ProtoReflect().SetUnknown(unknownField()) }
	}
	tests := map[string]struct {
		change func([]*logv1.Record)
		want   string
	}{
		"empty record": {set(mark, func(m *logv1.Record) { m.Record = nil }), "record 1: empty"},
		"no header":    {swap(header, mark), "record 0: mark: comes before the header"},
		"two headers":  {func(all []*logv1.Record) { all[1] = all[0] }, "record 1: header: the file has a second header"},
		"another format": {
			set(header, func(m *logv1.Record) { m.GetHeader().Version = 2 }),
			"record 0: header: the snapshot has format 2, and this program reads format 1",
		},
		"another format with a field more": {
			set(header, func(m *logv1.Record) {
				m.GetHeader().Version = 2
				m.GetHeader().ProtoReflect().SetUnknown(unknownField())
			}),
			"record 0: header: the snapshot has format 2, and this program reads format 1",
		},
		"a later level with a field more": {
			set(header, func(m *logv1.Record) {
				m.GetHeader().Level = 2
				m.GetHeader().ProtoReflect().SetUnknown(unknownField())
			}),
			"record 0: header: the cluster has feature level 2, and this program knows levels up to 1",
		},
		"no format": {
			set(header, func(m *logv1.Record) { m.GetHeader().Version = 0 }),
			"record 0: header: the snapshot has format 0, and this program reads format 1",
		},
		"a later level": {
			set(header, func(m *logv1.Record) { m.GetHeader().Level = 2 }),
			"record 0: header: the cluster has feature level 2, and this program knows levels up to 1",
		},
		"no level": {
			set(header, func(m *logv1.Record) { m.GetHeader().Level = 0 }),
			"record 0: header: level",
		},
		"no limits": {
			set(header, func(m *logv1.Record) { m.GetHeader().Limits = nil }),
			"record 0: header: limits",
		},
		"no story": {
			set(certificate, func(m *logv1.Record) { m.GetCertificate().TimeoutMs = 0 }),
			"certificate: timeout_ms",
		},
		"capacity of no bytes": {
			set(header, func(m *logv1.Record) { m.GetHeader().MaxSessions = 1 }),
			"header: max_state_bytes",
		},
		"bad key": {
			set(header, func(m *logv1.Record) { m.GetHeader().ClusterKey = []byte{1} }),
			"header: cluster_key",
		},
		"key changed":        {set(header, func(m *logv1.Record) { m.GetHeader().ClusterKey[0]++ }), "digest"},
		"attachment changed": {set(header, func(m *logv1.Record) { m.GetHeader().Attachment++ }), "digest"},
		"certificates changed": {
			set(header, func(m *logv1.Record) { m.GetHeader().Certificates++ }),
			"the header says 3",
		},
		"marks out of order":   {swap(mark, mark+1), "record 2: mark: 1 comes after 200"},
		"mark of another node": {set(mark, func(m *logv1.Record) { m.GetMark().Node = 2 }), "is no id of node 2"},
		"mark of no node":      {set(mark, func(m *logv1.Record) { m.GetMark().Node = 256 }), "mark: node"},
		"mark is too low": {
			set(mark, func(m *logv1.Record) { m.GetMark().Id = 1 << 56 }), "above its node's mark",
		},
		"mark changed":          {set(mark, func(m *logv1.Record) { m.GetMark().Id++ }), "digest"},
		"session before marks":  {swap(mark+1, first), "record 3: mark: comes after records of a later part"},
		"sessions out of order": {swap(first, labelled), "session: "},
		"session of no node": {
			set(first, func(m *logv1.Record) { m.GetSession().Id = 255 << 56 }),
			"above its node's mark",
		},
		"session twice": {func(all []*logv1.Record) { all[labelled] = all[first] }, "comes after"},
		"no owner":      {set(first, func(m *logv1.Record) { m.GetSession().Owner = 0 }), "session: owner"},
		"no timeout": {
			set(first, func(m *logv1.Record) { m.GetSession().TimeoutMs = 0 }),
			"session: timeout_ms",
		},
		"long timeout": {
			set(first, func(m *logv1.Record) { m.GetSession().TimeoutMs = 86_400_001 }),
			"session: timeout_ms",
		},
		"no attachment": {
			set(first, func(m *logv1.Record) { m.GetSession().Attachment = 0 }),
			"session: attachment",
		},
		"attachment too high": {
			set(first, func(m *logv1.Record) { m.GetSession().Attachment = 6 }),
			"session: attachment",
		},
		"bad labels": {
			set(labelled, func(m *logv1.Record) { m.GetSession().Labels[1].Key = "a" }),
			"session: labels",
		},
		"session changed": {set(first, func(m *logv1.Record) { m.GetSession().OpenedIndex++ }), "digest"},
		"no cause": {
			set(certificate, func(m *logv1.Record) { m.GetCertificate().Cause = 0 }),
			"certificate: cause",
		},
		"owner of certificate": {
			set(certificate, func(m *logv1.Record) { m.GetCertificate().Owner = 0 }),
			"certificate: owner",
		},
		"certificate is gone": {
			set(certificate, func(m *logv1.Record) { m.GetCertificate().Number = 3 }),
			"certificate: 2 comes after 4",
		},
		"certificate is left": {
			set(certificate+1, func(m *logv1.Record) { m.GetCertificate().Number = 3 }),
			"number is 3, and 1 must come next",
		},
		"certificate twice": {
			set(certificate+1, func(m *logv1.Record) { m.GetCertificate().Id-- }),
			"has a second certificate",
		},
		"requests out of order": {swap(request, request+2), "open_request: "},
		"short request id": {
			set(request, func(m *logv1.Record) { m.GetOpenRequest().RequestId = []byte{1} }),
			"open_request: request_id",
		},
		"request twice": {func(all []*logv1.Record) { all[request+2] = all[request+1] }, "a second open_request"},
		"fewer records": {
			set(trailer, func(m *logv1.Record) { m.GetTrailer().Records-- }),
			"13 records, and the trailer says 12",
		},
		"another digest": {set(trailer, func(m *logv1.Record) { m.GetTrailer().Digest[15]++ }), "digest"},
		"no digest":      {set(trailer, func(m *logv1.Record) { m.GetTrailer().Digest = nil }), "digest"},
		"unknown in record": {
			withUnknown(mark, func(m *logv1.Record) proto.Message { return m }),
			"record 1: field 99",
		},
		"unknown in header": {
			withUnknown(header, func(m *logv1.Record) proto.Message { return m.GetHeader() }),
			"header: field 99",
		},
		"unknown in mark": {
			withUnknown(mark, func(m *logv1.Record) proto.Message { return m.GetMark() }),
			"mark: field 99",
		},
		"unknown in session": {
			withUnknown(first, func(m *logv1.Record) proto.Message { return m.GetSession() }),
			"session: field 99",
		},
		"unknown in label": {
			withUnknown(labelled, func(m *logv1.Record) proto.Message { return m.GetSession().Labels[0] }),
			"label 0: field 99",
		},
		"unknown in cert": {
			withUnknown(certificate, func(m *logv1.Record) proto.Message { return m.GetCertificate() }),
			"certificate: field 99",
		},
		"unknown in request": {
			withUnknown(request, func(m *logv1.Record) proto.Message { return m.GetOpenRequest() }),
			"open_request: field 99",
		},
		"unknown in trailer": {
			withUnknown(trailer, func(m *logv1.Record) proto.Message { return m.GetTrailer() }),
			"trailer: field 99",
		},
	}
	good := furnished(t).snapshot(t)
	if got := assemble(t, records(t, good)); !bytes.Equal(got, good) {
		t.Fatal("assembling the records of a snapshot does not give the same bytes")
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			all := records(t, good)
			test.change(all)
			refuse(t, assemble(t, all), test.want)
		})
	}
	refuse(t, []byte("not a snapshot, and longer than its magic"), "snapshot is damaged: not a snapshot: bad magic")
	refuse(t, append([]byte(snapshotMagic), 0xff, 0xff, 0xff, 0x7f), "length 268435455 is above the limit of 2097152")
	refuse(t, append([]byte(snapshotMagic), bytes.Repeat([]byte{0xff}, 20)...), "length")
}

// The newest certificates are kept without a gap. Restore refuses a file in which certificates are missing.
func TestRestoreRefusesMissingCertificates(t *testing.T) {
	for issued, kept := range map[uint64]bool{3: true, 2: false, 0: false} {
		r := newReplica()
		r.tables.issued = issued
		if kept {
			r.tables.addCertificate(&certificates.Certificate{
				ID: 1, Number: issued, Owner: 1,
				Cause: session.CauseClosed, Story: &session.Story{Spec: session.Spec{Timeout: 1e9}},
			})
		}
		b := r.snapshot(t)
		if issued == 0 {
			same(t, restored(t, b), r)
			continue
		}
		refuse(t, b, "certificates")
	}
}
