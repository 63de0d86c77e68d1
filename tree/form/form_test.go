package form_test

import (
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/tree"
	"holdfast/tree/form"
	"holdfast/tree/store"
	"holdfast/tree/writers"
)

var update = flag.Bool("update", false, "write the golden files")

// everyWrite returns writes that use each field together, by the names of their golden files.
func everyWrite() map[string]tree.NumberedWrite {
	return map[string]tree.NumberedWrite{
		"write": {
			Session: 0x0304d3f642_7b0001, Attachment: 1 << 40, Number: 300, Acked: 299,
			Principals: []tree.Principal{{Scheme: tree.IP, ID: "10.1.2.3"}, {Scheme: tree.Digest, ID: "a:\xff\x00"}},
			Transaction: tree.Transaction{
				If: []tree.Condition{
					{Path: "/a", Property: tree.Exists, Is: tree.Equal},
					{Path: "/b", Property: tree.ChildCount, Is: tree.Greater, Value: 1<<64 - 1},
				},
				Then: []tree.Op{
					tree.Create{
						Path: "/a/lock-", Sequential: true, Data: []byte("d"), Kind: tree.Ephemeral, Parents: true,
						LockDelay: 1500 * time.Millisecond, ACL: tree.ACL{{Permissions: tree.All, Scheme: tree.World, ID: tree.Anyone}},
					},
					tree.Create{Path: "/b", Data: []byte{}, Kind: tree.Expiring, TTL: tree.MaxTTL},
					tree.Create{Path: "/c", Kind: tree.Container, ACL: tree.ACL{}},
					tree.Set{Path: "/b", Data: []byte{0}, Version: 0},
					tree.Set{Path: "/b", Version: tree.Any},
				},
				Else: []tree.Op{
					tree.Delete{Path: "/b", Version: 1<<63 - 2},
					tree.DeleteTree{Path: "/a"},
					tree.SetACL{Path: "/", ACL: tree.Open(), Version: 7},
					tree.SetACL{Path: "/c", Version: tree.Any},
					tree.Check{Path: "/", Version: tree.Any},
				},
			},
			Will: &tree.Will{Transaction: tree.Transaction{Then: []tree.Op{tree.DeleteTree{Path: "/w"}}}, OnClose: true},
		},
		"write_bare":        {Session: 1, Attachment: 1, Number: 1},
		"write_clear_will":  {Session: 1, Attachment: 1, Number: 2, Will: &tree.Will{}},
		"write_after_reads": {Session: 1, Attachment: 1, Number: 3, ReadsBefore: true},
		"void":              {Session: 9, Attachment: 8, Number: 7, Acked: 6, Void: true},
	}
}

// everyResult returns results of each kind, by the names of their golden files.
func everyResult() map[string]tree.Result {
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	return map[string]tree.Result{
		"result": {Stamp: tree.StampAt(1<<40, 7), Outcome: tree.Outcome{Else: true, Ops: []tree.OpOutcome{
			{Path: "/a/lock-0000000001", Stat: tree.Stat{
				Created: 5 << 16, Modified: 5 << 16, ChildrenModified: 5 << 16, CreatedAt: at(1_800_000_000_123),
				ModifiedAt: at(1_800_000_000_123), Owner: 1 << 63, Bytes: 3, Kind: tree.Ephemeral,
			}},
			{Stat: tree.Stat{
				Created: 1, Modified: 9 << 16, ChildrenModified: 8 << 16, CreatedAt: at(-5), ModifiedAt: at(-9), Version: 1,
				ACLVersion: 2, ChildrenVersion: 3, Bytes: 1 << 20, Children: 1<<31 - 1, Kind: tree.Expiring, Due: time.Hour,
			}},
			{Removed: 10_000},
			{},
		}}},
		"result_refused": {Stamp: 1, Outcome: tree.Outcome{At: 2, Refused: &tree.RefusedError{
			Code: tree.BadVersion, Verb: "set", Path: "/a", Detail: "version is 2, expected 1",
		}}},
		"result_condition": {Stamp: 1, Outcome: tree.Outcome{At: -1, Refused: &tree.RefusedError{
			Code: tree.NoPermission, Verb: "compare", Path: "/a",
		}}},
		"result_void": {Stamp: 1<<63 - 1, Void: true},
	}
}

// everyEntry returns entries of one snapshot, in their order.
func everyEntry() []store.Record {
	open, own := tree.Open(), tree.ACL{{Permissions: tree.Read, Scheme: tree.X509, ID: "CN=a\xff"}}
	return []store.Record{
		{
			Path: "/", Created: 1, Modified: 1, ChildrenModified: 9 << 16, Creates: 3, Children: 2, Kind: tree.Persistent,
			ACL: open,
		},
		{
			Path: "/a", Data: []byte{}, Created: 2 << 16, Modified: 1 << 40, ChildrenModified: 1 << 41,
			CreatedMS: 1_800_000_000_000, ModifiedMS: 1_700_000_000_000, Creates: 1 << 40,
			Children: 1<<32 - 1, Version: 1, ACLVersion: 2, LifeMS: 3, DueMS: 4,
			Kind: tree.Expiring, ACL: own,
		},
		{
			Path: "/b", Data: []byte("data"), Created: 7, Modified: 7, ChildrenModified: 7, CreatedMS: -1, ModifiedMS: -1,
			Owner: 1 << 63, LifeMS: 60_000, Kind: tree.Ephemeral,
		},
		{Path: "/c", Kind: tree.Container, ACL: own},
		{Path: "/d", Kind: tree.InLockDelay, ACL: open},
		{Path: "/e", Kind: tree.Persistent, ACL: tree.ACL{}},
	}
}

func everyWriter(tb testing.TB) []writers.Record {
	tb.Helper()
	will, err := form.AppendWill(nil, tree.KeptWill{
		Transaction: tree.Transaction{Then: []tree.Op{tree.Set{Path: "/w", Version: tree.Any}}},
		Principals:  []tree.Principal{{Scheme: tree.Super, ID: "ops"}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	results := [][]byte{
		form.AppendResult(nil, everyResult()["result"]), form.AppendResult(nil, everyResult()["result_void"]),
	}
	return []writers.Record{
		{
			Session: 1 << 63, Writer: writers.Writer{Applied: 1<<64 - 1, Floor: 7, Acked: 1<<64 - 3}, Results: results,
			Will: &writers.Will{Data: will, OnClose: true}, Principal: "x509:CN=a",
		},
		{Session: 1, Writer: writers.Writer{Applied: 5, Floor: 5}},
	}
}

// golden compares bytes with those of a golden file, which must never change.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".hex")
	if *update {
		if err := os.WriteFile(path, []byte(hex.EncodeToString(got)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSpace(string(text)); hex.EncodeToString(got) != want {
		t.Errorf("%s: the bytes on disk have changed, and must never change\n got %x\nwant %s", name, got, want)
	}
}

// sameAsGenerated fails unless the generated code reads the bytes, knows all of them, and writes the same.
func sameAsGenerated(t *testing.T, b []byte, m proto.Message) {
	t.Helper()
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	again, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil || string(again) != string(b) {
		t.Errorf("the generated code writes %x, %v\nwant %x", again, err, b)
	}
}

func wantSame[T any](t *testing.T, got T, err error, want T) {
	t.Helper()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestGolden(t *testing.T) {
	for name, w := range everyWrite() {
		b, err := form.AppendWrite(nil, w)
		if err != nil || form.KindOf(b) != form.Write {
			t.Fatalf("%s: %v, kind %v", name, err, form.KindOf(b))
		}
		golden(t, name, b)
		sameAsGenerated(t, b, &logv1.Command{})
		got, err := form.ParseWrite(b)
		wantSame(t, got, err, w)
	}
	for name, one := range everyResult() {
		b := form.AppendResult(nil, one)
		golden(t, name, b)
		sameAsGenerated(t, b, &logv1.Result{})
		got, err := form.ParseResult(b)
		wantSame(t, got, err, one)
	}
	all := []tree.Acknowledgement{{Session: 1 << 63, UpTo: 1}, {Session: 2, UpTo: 1<<64 - 1}}
	b, err := form.AppendAcknowledge(nil, all)
	golden(t, "acknowledge", b)
	sameAsGenerated(t, b, &logv1.Command{})
	wantSame(t, form.KindOf(b), err, form.Acknowledge)
	acknowledged, err := form.ParseAcknowledge(b)
	wantSame(t, acknowledged, err, all)
	due := []store.Reapable{{Path: "/a", Created: 1, Modified: 2, ChildrenModified: 3}, {Path: "/b"}}
	b, err = form.AppendReap(nil, due)
	golden(t, "reap", b)
	sameAsGenerated(t, b, &logv1.Command{})
	wantSame(t, form.KindOf(b), err, form.Reap)
	reaped, err := form.ParseReap(b)
	wantSame(t, reaped, err, due)
	limits := tree.Limits{Ephemerals: 7, Children: 1 << 20, OpenQuotas: true, Bytes: 1 << 33}
	b = form.AppendLimits(nil, limits)
	golden(t, "limits", b)
	sameAsGenerated(t, b, &logv1.TreeLimits{})
	parsed, err := form.ParseLimits(b)
	wantSame(t, parsed, err, limits)
}

func TestGoldenRecords(t *testing.T) {
	var writing, reading form.Lists
	var whole []byte
	for _, want := range everyEntry() {
		b := writing.AppendEntry(nil, &want)
		whole = append(whole, b...)
		sameAsGenerated(t, b, &logv1.Record{})
		got, err := reading.ParseEntry(b)
		wantSame(t, got, err, want)
	}
	golden(t, "entries", whole)
	whole = nil
	for _, want := range everyWriter(t) {
		b := form.AppendWriter(nil, &want)
		whole = append(whole, b...)
		sameAsGenerated(t, b, &logv1.Record{})
		got, err := form.ParseWriter(b)
		wantSame(t, got, err, want)
	}
	golden(t, "writers", whole)
}

// A list that many entries have is in a snapshot once.
func TestListsAreWrittenOnce(t *testing.T) {
	var lists form.Lists
	acl := tree.ACL{{Permissions: tree.Read, Scheme: tree.X509, ID: strings.Repeat("x", tree.MaxACL-4)}}
	one := store.Record{Path: "/a", Kind: tree.Persistent, ACL: acl}
	if first := lists.AppendEntry(nil, &one); len(first) < tree.MaxACL {
		t.Errorf("the first record has %d bytes, want the list in it", len(first))
	}
	if second := lists.AppendEntry(nil, &one); len(second) > 32 {
		t.Errorf("the second record has %d bytes, want the number of the list", len(second))
	}
}

func TestKindOf(t *testing.T) {
	for _, b := range [][]byte{nil, {0xff}, {0x0a, 0}, {0x82, 0x01, 0}} {
		if kind := form.KindOf(b); kind != form.Other {
			t.Errorf("%x is of kind %v", b, kind)
		}
	}
}

// refusedField fails unless err is of a field.
func refusedField(t *testing.T, name string, err error, field string) {
	t.Helper()
	wrong, ok := errors.AsType[*tree.FieldError](err)
	if !ok || wrong.Field != field || wrong.Why == "" {
		t.Errorf("%s: got %v, want a FieldError of %q", name, err, field)
	}
}
