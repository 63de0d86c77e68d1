package fsm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/fsm/sessions"
	"holdfast/session"
	"holdfast/tree"
)

// furnished returns a state with records of each kind for a snapshot.
func furnished(t fataler) *replica {
	r := newReplica()
	r.do(t, begins(session.Configure{Key: session.Key{1, 2, 3}, Nonce: 4}))
	plain := r.open(t, opening(1))
	c := opening(2)
	c.Node, c.Timeout, c.Labels = 200, 40*time.Second, session.Labels{{Key: "app", Value: "billing"}, {Key: "zone"}}
	labelled := r.open(t, c)
	r.apply(t, 1, opening(3), opening(4))
	r.do(t, session.MoveSession{ID: labelled.ID, NewOwner: 3, Instance: 0xfedcba9876543210, Attempt: 2, Named: 2})
	r.apply(t, 2, closing(2, plain))
	wish := closing(3, session.Session{ID: plain.ID + 1, Attachment: 3})
	wish.Cause, wish.Sessions[0].LastTouchAge = session.CauseClosed, -1
	r.apply(t, 3, wish)
	r.apply(t, 3, session.ForgetRequests{UpToIndex: 2})
	return r
}

// same fails unless two states have the same contents, digest, index and attachment.
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
		t.Fatalf("at index %d, attachment %d; want %d, %d", got.AppliedIndex(), got.Attachment(), want.AppliedIndex(),
			want.Attachment())
	}
}

// contents returns the tables in a form that can be compared and printed.
func contents(r *replica) map[string]any {
	var rows []sessions.Row
	var labels []session.Labels
	r.tables.sessions.Ascend(0, func(s *sessions.Row) bool {
		copied := *s
		copied.Labels = nil
		rows = append(rows, copied)
		labels = append(labels, s.Session().Labels)
		return true
	})
	return map[string]any{
		"sessions": rows, "labels": labels, "marks": r.tables.marks, "attachment": r.tables.attachment,
		"key":      r.tables.key,
		"requests": requestsOf(r.tables), "certificates": values(r.tables.certificates.Items),
		"issued": r.tables.issued, "term": r.term, "capacity": r.tables.capacity,
		"bytes": r.tables.bytes, "bytes of certificates": r.tables.certificates.Bytes, "forgotten": r.tables.forgotten,
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
	file := golden(t, "snapshot.hex", []byte(hexLines(r.snapshot(t))))
	old, err := hex.DecodeString(strings.Join(strings.Fields(string(file)), ""))
	if err != nil {
		t.Fatal(err)
	}
	same(t, restored(t, old), r)
}

func TestGoldenSnapshotWithACapacity(t *testing.T) {
	r := furnished(t)
	r.do(t, session.SetCapacity{Capacity: session.Capacity{MaxSessions: 2_000_000, MaxBytes: 2 << 30}})
	b := r.snapshot(t)
	file := golden(t, "snapshot_capacity.hex", []byte(hexLines(b)))
	old, err := hex.DecodeString(strings.Join(strings.Fields(string(file)), ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := records(t, old)[0].GetHeader(); got.GetMaxSessions() != 2_000_000 ||
		got.GetMaxStateBytes() != 2<<30 {
		t.Errorf("the header is %v, want one with the capacity", got)
	}
	same(t, restored(t, old), r)
}

func TestGoldenSnapshotWithATree(t *testing.T) {
	r := newTree(t)
	s := r.open(t, 1, 7)
	w := numbered(s, 1, tree.Create{Path: "/lock", Kind: tree.Ephemeral, Data: []byte("me"), LockDelay: time.Second},
		tree.Create{Path: "/mine", Kind: tree.Persistent, ACL: tree.Open()})
	w.Will = &tree.Will{Transaction: tree.Transaction{Then: []tree.Op{persistent("/will")}}, OnClose: true}
	r.clock = 1500 * time.Millisecond
	if result, err := r.write(t, w); err != nil || result.Outcome.Refused != nil {
		t.Fatalf("%+v, %v", result, err)
	}
	gone := r.open(t, 2, 8)
	if _, err := r.write(t, numbered(gone, 1, ephemeral("/gone"))); err != nil {
		t.Fatal(err)
	}
	r.at(t, closing(1, gone))
	file := golden(t, "snapshot_tree.hex", []byte(hexLines(r.snapshot(t))))
	old, err := hex.DecodeString(strings.Join(strings.Fields(string(file)), ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := records(t, old)[0].GetHeader(); got.GetLevel() != 1 || got.GetClockMs() != 1500 {
		t.Errorf("the header is %v, want one with level and clock", got)
	}
	again := restored(t, old)
	if c, ok := again.Certificate(gone.ID); !ok || c.Left.Ephemerals != 1 || c.Left.Applied != 1 || c.Left.Instance != 8 {
		t.Errorf("the certificate is %+v", c)
	}
	if _, ok := again.Tree().Writers.Result(uint64(s.ID), 1); !ok {
		t.Error("the result of the write is gone")
	}
	same(t, again, r.replica)
}

// hexLines returns b in hexadecimal, in lines, so that a diff shows what changed.
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
			t.Error("the replaced state shows while the observer runs")
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
		t.Error("a digest of the replaced state is still remembered")
	}
	// The restored state must find requests and certificates by their keys.
	r.next = r.AppliedIndex() + 1
	from.next = r.next
	o.hook = nil
	for _, c := range []session.Command{
		opening(2), opening(4), session.MoveSession{ID: 1<<56 | 1000<<16, NewOwner: 1, Attempt: 1, Named: 1},
	} {
		if got, want := fmt.Sprintf("%+v", r.apply(t, 5, c)), fmt.Sprintf("%+v", from.apply(t, 5, c)); got != want {
			t.Errorf("%+v = %s\nwant %s", c, got, want)
		}
	}
	same(t, r, from)
}

// A restore never takes the state back, whatever snapshot Raft installs.
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
		t.Errorf("the state is at %d with digest %x, and told %v; want %d, %x and nothing", i, d, o.events, index,
			digest)
	}
	r.open(t, opening(3)) // the state has not halted
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
		if i == len(all)/2 { // the first half is applied before the writing begins, the other half during the writing
			persist.Go(func() {
				if err := snap.Persist(&got); err != nil {
					t.Error(err)
				}
			})
		}
		r.do(t, session.MoveSession{ID: s.ID, NewOwner: 2, Instance: 1, Attempt: 1, Named: 1})
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
