package fsm

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// furnished has something of everything that a snapshot holds.
func furnished(t fataler) *replica {
	r := newReplica()
	r.do(t, session.Configure{Key: session.Key{1, 2, 3}, Nonce: 4})
	plain := r.open(t, opening(1))
	c := opening(2)
	c.Node, c.Timeout, c.Labels = 200, 40*time.Second, session.Labels{{Key: "app", Value: "billing"}, {Key: "zone"}}
	labelled := r.open(t, c)
	r.apply(t, 1, opening(3), opening(4))
	r.do(t, session.MoveSession{ID: labelled.ID, NewOwner: 3, Instance: 0xfedcba9876543210, Attempt: 2})
	r.apply(t, 2, closing(2, plain))
	wish := closing(3, session.Session{ID: plain.ID + 1, Attachment: 3})
	wish.Cause, wish.Sessions[0].LastTouchAge = session.CauseClosed, -1
	r.apply(t, 3, wish)
	r.apply(t, 3, session.ForgetRequests{UpToIndex: 2})
	return r
}

// same compares all that can be read of two states.
func same(t fataler, got, want *replica) {
	t.Helper()
	if !reflect.DeepEqual(contents(got), contents(want)) {
		t.Fatalf("state is\n%+v\nwant\n%+v", contents(got), contents(want))
	}
	gotIndex, gotDigest := got.Digest()
	wantIndex, wantDigest := want.Digest()
	if gotIndex != wantIndex || gotDigest != wantDigest {
		t.Fatalf("digest at %d is %x, want at %d %x", gotIndex, gotDigest, wantIndex, wantDigest)
	}
	if got.AppliedIndex() != want.AppliedIndex() || got.Attachment() != want.Attachment() {
		t.Fatalf("at index %d, attachment %d; want %d, %d", got.AppliedIndex(), got.Attachment(), want.AppliedIndex(), want.Attachment())
	}
}

// contents are the tables in a form that can be compared and printed.
func contents(r *replica) map[string]any {
	var sessions []record
	var labels []session.Labels
	r.tables.sessions.Scan(func(_ session.ID, s *record) bool {
		copied := *s
		copied.labels = nil
		sessions = append(sessions, copied)
		labels = append(labels, s.session().Labels)
		return true
	})
	return map[string]any{
		"sessions": sessions, "labels": labels, "marks": r.tables.marks, "attachment": r.tables.attachment, "key": r.tables.key,
		"requests": values(r.tables.requests.items), "certificates": values(r.tables.certificates.items),
		"issued": r.tables.issued, "term": r.term, "capacity": r.tables.capacity, "bytes": r.tables.bytes,
	}
}

func values[T any](items []*T) []T {
	v := make([]T, len(items))
	for i, item := range items {
		v[i] = *item
	}
	return v
}

func TestGoldenSnapshot(t *testing.T) {
	r := furnished(t)
	file := golden(t, "snapshot_v1.hex", []byte(hexLines(r.snapshot(t))))
	old, err := hex.DecodeString(strings.Join(strings.Fields(string(file)), ""))
	if err != nil {
		t.Fatal(err)
	}
	same(t, restored(t, old), r)
}

// A state with a capacity is written as version 2.
func TestGoldenSnapshotWithACapacity(t *testing.T) {
	r := furnished(t)
	r.do(t, session.SetCapacity{Capacity: session.Capacity{MaxSessions: 2_000_000, MaxBytes: 2 << 30}})
	b := r.snapshot(t)
	file := golden(t, "snapshot_v2.hex", []byte(hexLines(b)))
	old, err := hex.DecodeString(strings.Join(strings.Fields(string(file)), ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := records(t, old)[0].GetHeader(); got.GetVersion() != 2 || got.GetMaxSessions() != 2_000_000 || got.GetMaxStateBytes() != 2<<30 {
		t.Errorf("the header is %v, want version 2 with the capacity", got)
	}
	same(t, restored(t, old), r)
}

// hexLines is b as hex, so that a review shows what changed.
func hexLines(b []byte) string {
	var dump strings.Builder
	for chunk := range slices.Chunk(b, 32) {
		dump.WriteString(hex.EncodeToString(chunk) + "\n")
	}
	return dump.String()
}

func TestEmptySnapshot(t *testing.T) {
	r := newReplica()
	same(t, restored(t, r.snapshot(t)), r)
}

func TestRestoreReplacesEverythingAndTellsObservers(t *testing.T) {
	from := furnished(t)
	r := newReplica()
	kept := opening(9)
	kept.Node = 9
	old := r.open(t, kept)
	o := observe(r)
	o.hook = func() {
		if got := r.AppliedIndex(); got != 1 {
			t.Errorf("applied index is %d while the observer runs, want 1", got)
		}
		if _, ok := r.Session(old.ID); ok {
			t.Error("the former state shows while the observer runs")
		}
	}
	if err := r.restore(from.snapshot(t)); err != nil {
		t.Fatal(err)
	}
	same(t, r, from)
	if want := []string{"restored"}; !reflect.DeepEqual(o.events, want) {
		t.Errorf("told %v, want %v", o.events, want)
	}
	if _, ok := r.DigestAt(1); ok {
		t.Error("a digest of the former state is still remembered")
	}
	// What follows finds requests and certificates by their keys.
	r.next = r.AppliedIndex() + 1
	from.next = r.next
	o.hook = nil
	for _, c := range []session.Command{opening(2), opening(4), session.MoveSession{ID: 1<<56 | 1000<<16, NewOwner: 1, Attempt: 1}} {
		if got, want := fmt.Sprintf("%+v", r.apply(t, 5, c)), fmt.Sprintf("%+v", from.apply(t, 5, c)); got != want {
			t.Errorf("%+v = %s\nwant %s", c, got, want)
		}
	}
	same(t, r, from)
}

// TestRestoreDoesNotGoBack: what has been applied stays applied, whatever Raft installs.
func TestRestoreDoesNotGoBack(t *testing.T) {
	r := newReplica()
	r.open(t, opening(1))
	older := r.snapshot(t)
	if err := r.restore(older); err != nil {
		t.Errorf("a snapshot of the state as it is: %v", err)
	}
	r.open(t, opening(2))
	o := observe(r)
	index, digest := r.Digest()
	if err := r.restore(older); !errors.Is(err, errOlderSnapshot) {
		t.Errorf("got %v, want that the snapshot is older", err)
	}
	if i, d := r.Digest(); i != index || d != digest || len(o.events) != 0 {
		t.Errorf("the state is at %d with digest %x, and told %v; want %d, %x and nothing", i, d, o.events, index, digest)
	}
	r.open(t, opening(3)) // nothing has halted it
}

func TestPersistReportsAFailingDisk(t *testing.T) {
	snap, err := newReplica().Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{fail: errors.New("disk is full")}
	if err := snap.Persist(s); !errors.Is(err, s.fail) || !s.cancelled || s.closed {
		t.Errorf("Persist = %v, cancelled %v, closed %v; want %v, true, false", err, s.cancelled, s.closed, s.fail)
	}
}

func TestSnapshotIsWrittenBesideApply(t *testing.T) {
	r := newReplica()
	var all []session.Session
	for i := range 2000 {
		c := opening(0)
		c.RequestID = session.RequestID{1, byte(i), byte(i >> 8)}
		all = append(all, r.open(t, c))
	}
	want := r.snapshot(t)
	snap, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var got sink
	var persist sync.WaitGroup
	for i, s := range all {
		if i == len(all)/2 { // the first half is applied before the writing begins, the other beside it
			persist.Go(func() {
				if err := snap.Persist(&got); err != nil {
					t.Error(err)
				}
			})
		}
		r.do(t, session.MoveSession{ID: s.ID, NewOwner: 2, Instance: 1, Attempt: 1})
		if i%2 == 0 {
			s.Attachment = r.Attachment()
			r.do(t, closing(1, s))
		}
		r.do(t, session.ForgetRequests{UpToIndex: uint64(i)})
	}
	persist.Wait()
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("the snapshot shows what was applied after it was taken")
	}
}

// refuse restores b over a state, which must stay as it was.
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
		t.Error("a snapshot that was refused has changed the state")
	}
}

func TestRestoreRefusesEveryCut(t *testing.T) {
	b := furnished(t).snapshot(t)
	for n := range b {
		refuse(t, b[:n], "cut short")
	}
	refuse(t, append(b, 0), "more after the trailer")
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
	if !errors.Is(err, bad) || !strings.Contains(err.Error(), "see to the disk") || strings.Contains(err.Error(), "release") {
		t.Errorf("Restore = %v, want %v and what to do", err, bad)
	}
}

// namedSnapshot is a snapshot with a file, as the node's store gives it; countedSnapshot is what Raft puts around it.
type namedSnapshot struct{ io.ReadCloser }

func (namedSnapshot) Name() string { return "/data/snapshots/2-9-1/state.bin" }

type countedSnapshot struct{ io.ReadCloser }

func (c countedSnapshot) WrappedReadCloser() io.ReadCloser { return c.ReadCloser }

// A snapshot that does not load names its file, and the release is blamed only where it may be at fault.
func TestRestoreNamesTheFile(t *testing.T) {
	good := furnished(t).snapshot(t)
	newer := records(t, good)
	newer[0].GetHeader().Version = 2
	for want, b := range map[string][]byte{
		"snapshot /data/snapshots/2-9-1/state.bin is damaged: record 8: message: the file is cut short": good[:len(good)-70],
		"this node's release cannot read snapshot /data/snapshots/2-9-1/state.bin: record 0":            assemble(t, newer),
	} {
		err := newReplica().Restore(countedSnapshot{namedSnapshot{io.NopCloser(bytes.NewReader(b))}})
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(want, "damaged") == strings.Contains(err.Error(), "release") {
			t.Errorf("Restore = %v, want %s", err, want)
		}
	}
}

// records takes a snapshot apart.
func records(t *testing.T, b []byte) []*logv1.Record {
	t.Helper()
	r := recordReader{r: bufio.NewReader(bytes.NewReader(b))}
	if err := r.magic(); err != nil {
		t.Fatal(err)
	}
	var all []*logv1.Record
	for {
		m, err := r.next()
		if err != nil {
			return all
		}
		all = append(all, m)
	}
}

// assemble makes a file of records; the checksums are right, whatever the records say.
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
	// Positions in furnished's snapshot.
	const header, mark, first, labelled, certificate, request, trailer = 0, 1, 3, 4, 5, 7, 10
	swap := func(i, j int) func([]*logv1.Record) {
		return func(all []*logv1.Record) { all[i], all[j] = all[j], all[i] }
	}
	set := func(i int, change func(*logv1.Record)) func([]*logv1.Record) {
		return func(all []*logv1.Record) { change(all[i]) }
	}
	unknown := func(i int, in func(*logv1.Record) proto.Message) func([]*logv1.Record) {
		return func(all []*logv1.Record) { in(all[i]).ProtoReflect().SetUnknown(unknownField()) }
	}
	tests := map[string]struct {
		change func([]*logv1.Record)
		want   string
	}{
		"empty record":          {set(mark, func(m *logv1.Record) { m.Record = nil }), "record 1: empty"},
		"no header":             {swap(header, mark), "record 0: mark: before the header"},
		"two headers":           {func(all []*logv1.Record) { all[1] = all[0] }, "record 1: header: a second one"},
		"newer version":         {set(header, func(m *logv1.Record) { m.GetHeader().Version = 3 }), "record 0: header: snapshot version 3"},
		"version 2 of nothing":  {set(header, func(m *logv1.Record) { m.GetHeader().Version = 2 }), "record 0: header: max_sessions"},
		"capacity in version 1": {set(header, func(m *logv1.Record) { m.GetHeader().MaxSessions = 2 }), "header: a capacity, which version 1 does not have"},
		"capacity of no bytes":  {set(header, func(m *logv1.Record) { m.GetHeader().Version, m.GetHeader().MaxSessions = 2, 1 }), "header: max_state_bytes"},
		"bad key":               {set(header, func(m *logv1.Record) { m.GetHeader().ClusterKey = []byte{1} }), "header: cluster_key"},
		"key changed":           {set(header, func(m *logv1.Record) { m.GetHeader().ClusterKey[0]++ }), "digest"},
		"attachment changed":    {set(header, func(m *logv1.Record) { m.GetHeader().Attachment++ }), "digest"},
		"certificates changed":  {set(header, func(m *logv1.Record) { m.GetHeader().Certificates++ }), "the header says 3"},
		"marks out of order":    {swap(mark, mark+1), "record 2: mark: 1 comes after 200"},
		"mark of another node":  {set(mark, func(m *logv1.Record) { m.GetMark().Node = 2 }), "is no id of node 2"},
		"mark of no node":       {set(mark, func(m *logv1.Record) { m.GetMark().Node = 256 }), "mark: node"},
		"mark is too low":       {set(mark, func(m *logv1.Record) { m.GetMark().Id = 1 << 56 }), "above its node's mark"},
		"mark changed":          {set(mark, func(m *logv1.Record) { m.GetMark().Id++ }), "digest"},
		"session before marks":  {swap(mark+1, first), "record 3: mark: out of order"},
		"sessions out of order": {swap(first, labelled), "session: "},
		"session of no node":    {set(first, func(m *logv1.Record) { m.GetSession().Id = 255 << 56 }), "above its node's mark"},
		"session twice":         {func(all []*logv1.Record) { all[labelled] = all[first] }, "comes after"},
		"no owner":              {set(first, func(m *logv1.Record) { m.GetSession().Owner = 0 }), "session: owner"},
		"no timeout":            {set(first, func(m *logv1.Record) { m.GetSession().TimeoutMs = 0 }), "session: timeout_ms"},
		"long timeout":          {set(first, func(m *logv1.Record) { m.GetSession().TimeoutMs = 86_400_001 }), "session: timeout_ms"},
		"no attachment":         {set(first, func(m *logv1.Record) { m.GetSession().Attachment = 0 }), "session: attachment"},
		"attachment too high":   {set(first, func(m *logv1.Record) { m.GetSession().Attachment = 6 }), "session: attachment"},
		"bad labels":            {set(labelled, func(m *logv1.Record) { m.GetSession().Labels[1].Key = "a" }), "session: labels"},
		"session changed":       {set(first, func(m *logv1.Record) { m.GetSession().OpenedIndex++ }), "digest"},
		"no cause":              {set(certificate, func(m *logv1.Record) { m.GetCertificate().Cause = 0 }), "certificate: cause"},
		"owner of certificate":  {set(certificate, func(m *logv1.Record) { m.GetCertificate().Owner = 0 }), "certificate: owner"},
		"certificate is gone":   {set(certificate, func(m *logv1.Record) { m.GetCertificate().Number = 3 }), "certificate: 2 comes after 4"},
		"certificate is left":   {set(certificate+1, func(m *logv1.Record) { m.GetCertificate().Number = 3 }), "number 3 where 1 comes next"},
		"certificate twice":     {set(certificate+1, func(m *logv1.Record) { m.GetCertificate().Id-- }), "a second one"},
		"requests out of order": {swap(request, request+2), "open_request: "},
		"short request id":      {set(request, func(m *logv1.Record) { m.GetOpenRequest().RequestId = []byte{1} }), "open_request: request_id"},
		"request twice":         {func(all []*logv1.Record) { all[request+2] = all[request+1] }, "a second one"},
		"fewer records":         {set(trailer, func(m *logv1.Record) { m.GetTrailer().Records-- }), "10 records, the trailer says 9"},
		"another digest":        {set(trailer, func(m *logv1.Record) { m.GetTrailer().Digest[15]++ }), "digest"},
		"no digest":             {set(trailer, func(m *logv1.Record) { m.GetTrailer().Digest = nil }), "digest"},
		"unknown in record":     {unknown(mark, func(m *logv1.Record) proto.Message { return m }), "record 1: field 99"},
		"unknown in header":     {unknown(header, func(m *logv1.Record) proto.Message { return m.GetHeader() }), "header: field 99"},
		"unknown in mark":       {unknown(mark, func(m *logv1.Record) proto.Message { return m.GetMark() }), "mark: field 99"},
		"unknown in session":    {unknown(first, func(m *logv1.Record) proto.Message { return m.GetSession() }), "session: field 99"},
		"unknown in label":      {unknown(labelled, func(m *logv1.Record) proto.Message { return m.GetSession().Labels[0] }), "label 0: field 99"},
		"unknown in cert":       {unknown(certificate, func(m *logv1.Record) proto.Message { return m.GetCertificate() }), "certificate: field 99"},
		"unknown in request":    {unknown(request, func(m *logv1.Record) proto.Message { return m.GetOpenRequest() }), "open_request: field 99"},
		"unknown in trailer":    {unknown(trailer, func(m *logv1.Record) proto.Message { return m.GetTrailer() }), "trailer: field 99"},
	}
	good := furnished(t).snapshot(t)
	if got := assemble(t, records(t, good)); !bytes.Equal(got, good) {
		t.Fatal("taking a snapshot apart and putting it together does not give the same bytes")
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			all := records(t, good)
			test.change(all)
			refuse(t, assemble(t, all), test.want)
		})
	}
	refuse(t, []byte("not a snapshot, and longer than its magic"), "snapshot is damaged: not a snapshot: bad magic")
	refuse(t, append([]byte(snapshotMagic), 0xff, 0xff, 0x7f), "length 2097151 is above 65536")
	refuse(t, append([]byte(snapshotMagic), bytes.Repeat([]byte{0xff}, 20)...), "length")
}

// The newest certificates are kept without a gap: a file in which older ones are missing was not written by this program.
func TestRestoreRefusesMissingCertificates(t *testing.T) {
	for issued, kept := range map[uint64]bool{3: true, 2: false, 0: false} {
		r := newReplica()
		r.tables.issued = issued
		if kept {
			r.tables.addCertificate(&certificate{id: 1, number: issued, owner: 1, cause: session.CauseClosed})
		}
		b := r.snapshot(t)
		if issued == 0 {
			same(t, restored(t, b), r)
			continue
		}
		refuse(t, b, "certificates up to number")
	}
}

func TestLargestSessionFitsIntoARecord(t *testing.T) {
	r := newReplica()
	c := opening(1)
	for i := range session.MaxLabels {
		key := strings.Repeat(string(rune('a'+i%26)), session.MaxLabelKey-1) + string(rune('A'+i/26))
		c.Labels = append(c.Labels, session.Label{Key: key, Value: strings.Repeat("v", session.MaxLabelValue)})
	}
	labels := map[string]string{}
	for _, l := range c.Labels {
		labels[l.Key] = l.Value
	}
	var err error
	if c.Labels, err = session.NewLabels(labels); err != nil || len(c.Labels) != session.MaxLabels {
		t.Fatal(err)
	}
	r.open(t, c)
	same(t, restored(t, r.snapshot(t)), r)
}
