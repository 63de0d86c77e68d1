package operations

import (
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"holdfast/tree"
	"holdfast/zk/jute"
)

// Each operation of the protocol has a row, or is one that no client sends or that ends the connection. A row of a
// write makes a change of the tree, and its reply in a multi is that of a row.
func TestEachOperationHasARow(t *testing.T) {
	// Ping has no place in the order of requests; the other ones are refused.
	without := []jute.Op{jute.Ping, jute.DeleteContainer, jute.CreateSession}
	for _, op := range jute.Ops() {
		row, ok := operations[op]
		switch {
		case ok == slices.Contains(without, op):
			t.Errorf("%v: has a row: %v", op, ok)
		case !ok:
		case row.handle == nil && row.multi == 0:
			t.Errorf("%v: is handled neither by itself nor in a multi", op)
		case row.multi != 0 && (row.change == nil || operations[row.multi].result == nil):
			t.Errorf("%v: a multi lacks its change, or the record of %v", op, row.multi)
		case row.multiRead && row.record == nil:
			t.Errorf("%v: a multiRead lacks its record", op)
		}
	}
	for op := range operations {
		if !slices.Contains(jute.Ops(), op) {
			t.Errorf("%v has no name", op)
		}
	}
}

// Each reason for which the tree refuses an operation has a code.
func TestEachRefusalHasACode(t *testing.T) {
	for code := tree.NoNode; !strings.HasPrefix(code.String(), "code "); code++ {
		if codes[code] == jute.OK {
			t.Errorf("%v has no code", code)
		}
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRequests: each record, and what is no record.
func TestRequests(t *testing.T) {
	path := "00000002 2f61"
	world := "00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65"
	grants := []jute.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}}
	for text, want := range map[string]jute.Request{
		"00000005 0000000b": {Xid: 5, Op: jute.Ping},
		"00000001 00000001" + path + "00000001 78" + world + "00000003": {Xid: 1, Op: jute.Create, Body: jute.CreateRequest{
			Path: "/a", Data: []byte("x"), ACL: grants, Flags: jute.EphemeralSequential,
		}},
		"00000001 00000015" + path + "ffffffff" + world + "00000005 00000000000003e8": {
			Xid: 1, Op: jute.CreateTTL, Body: jute.CreateRequest{Path: "/a", ACL: grants, Flags: jute.PersistentTTL, TTL: 1000},
		},
		"00000001 00000002" + path + "ffffffff": {Xid: 1, Op: jute.Delete, Body: jute.VersionRequest{Path: "/a", Version: -1}},
		"00000001 00000003" + path + "01":       {Xid: 1, Op: jute.Exists, Body: jute.WatchRequest{Path: "/a", Watch: true}},
		"00000001 00000005" + path + "00000000 00000007": {Xid: 1, Op: jute.SetData, Body: jute.SetDataRequest{
			Path: "/a", Data: []byte{}, Version: 7,
		}},
		"00000001 00000007" + path + world + "00000000": {Xid: 1, Op: jute.SetACL, Body: jute.SetACLRequest{Path: "/a", ACL: grants}},
		"00000001 0000000e 00000002 00 ffffffff" + path + "00000001 ffffffff 01 ffffffff": {
			Xid: 1, Op: jute.Multi,
			Body: jute.MultiRequest{Ops: []jute.Request{{Op: jute.Delete, Body: jute.VersionRequest{Path: "/a", Version: 1}}}},
		},
		"fffffffc 00000064 00000000 00000002 6970 ffffffff": {Xid: jute.AuthXid, Op: jute.Auth, Body: jute.AuthRequest{Scheme: "ip"}},
		"fffffff8 00000069 0000000000000009 00000001" + path + "00000000 ffffffff 00000000 00000000": {
			Xid: jute.WatchesXid, Op: jute.SetWatches2, Body: jute.SetWatchesRequest{Zxid: 9, Data: []string{"/a"}},
		},
		"00000001 0000006a" + path + "00000001": {Xid: 1, Op: jute.AddWatch, Body: jute.TypeRequest{Path: "/a", Type: jute.ModeRecursive}},
	} {
		got, err := operations.parse(unhex(t, text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v %v, want %+v", text, got, err, want)
		}
	}
	for text, field := range map[string]string{
		"000000":                                         "xid",
		"00000001 00000001":                              "path",
		"00000001 00000004 7fffffff":                     "path",
		"00000001 00000004 fffffffe":                     "path",
		"00000001 00000004 00000001 ff 00":               "path",
		"00000001 00000001" + path + "ffffffff 7fffffff": "acl",
		"00000001 00000065 0000000000000000 7fffffff":    "dataWatches",
		"00000001 0000000e 00000003 00 ffffffff" + path:  "multi",
		"00000001 0000000e 00000002 00 ffffffff" + path:  "version",
	} {
		var wrong *jute.FieldError
		if _, err := operations.parse(unhex(t, text)); !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v, want an error of %s", text, err, field)
		}
	}
}

// FuzzRequest: no input panics, or makes more than a small multiple of its size.
func FuzzRequest(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 14, 0, 0, 0, 2, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, '/', 0, 0, 0, 1})
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 101, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, frame []byte) {
		_, _ = jute.ParseConnect(frame)
		r, err := operations.parse(frame)
		if err != nil {
			return
		}
		if m, ok := r.Body.(jute.MultiRequest); ok && len(m.Ops)*9 > len(frame) {
			t.Errorf("%d operations in %d bytes", len(m.Ops), len(frame))
		}
		if again, err := operations.parse(frame); err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("%+v, and again %+v %v", r, again, err)
		}
	})
}

// A multi has at most MaxOps operations, and so has a multiRead.
func TestMultisAreBounded(t *testing.T) {
	for op, of := range map[jute.Op]jute.Op{jute.Multi: jute.Check, jute.MultiRead: jute.GetData} {
		for n, refused := range map[int]bool{jute.MaxOps: false, jute.MaxOps + 1: true} {
			e := &jute.Encoder{}
			e.Int(1)
			e.Int(int32(op))
			for range n {
				e.MultiHeader(jute.MultiHeader{Op: of})
				e.String("/a")
				if of == jute.Check {
					e.Int(-1)
				} else {
					e.Bool(false)
				}
			}
			e.MultiEnd()
			if _, err := operations.parse(e.Bytes()); (err != nil) != refused {
				t.Errorf("%v of %d operations: %v", op, n, err)
			}
		}
	}
}
