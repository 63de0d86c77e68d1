package jute

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBytes: the exchanges of ZooKeeper's clients, byte for byte (N-16.8).
func TestBytes(t *testing.T) {
	request, err := ParseConnect(unhex(t, "00000000 0000000000000000 00002710 0000000000000000 00000010"+
		strings.Repeat("00", 16)+"00"))
	if want := (ConnectRequest{Timeout: 10_000, Password: make([]byte, 16), HasReadOnly: true}); err != nil ||
		!reflect.DeepEqual(request, want) {
		t.Errorf("%+v %v, want %+v", request, err, want)
	}
	password := [16]byte(unhex(t, "b94088b552f64a9abf58d1e2ebab94b0"))
	for _, one := range []struct {
		name string
		got  []byte
		want string
	}{
		{
			"a session", ConnectResponse{
				Timeout: 4000, SessionID: 0x0100003aa79d0000, Password: password,
				HasReadOnly: true,
			}.Frame(),
			"00000025 00000000 00000fa0 0100003aa79d0000 00000010 b94088b552f64a9abf58d1e2ebab94b0 00",
		},
		{
			"no session", ConnectResponse{HasReadOnly: true}.Frame(),
			"00000025 00000000 00000000 0000000000000000 00000010" + strings.Repeat("00", 16) + "00",
		},
		{"an old client's", ConnectResponse{}.Frame(), "00000024 00000000 00000000 0000000000000000 00000010" +
			strings.Repeat("00", 16)},
		{"a pong", Reply(PingXid, 0x10002, OK).Frame(), "00000010 fffffffe 0000000000010002 00000000"},
		{"an event", Event(-1, EventDeleted, "/a"), "0000001e ffffffff ffffffffffffffff 00000000 00000002 00000003 " +
			"00000002 2f61"},
	} {
		if !bytes.Equal(one.got, unhex(t, one.want)) {
			t.Errorf("%s: %x, want %s", one.name, one.got, one.want)
		}
	}
	var stat Encoder
	stat.Stat(Stat{})
	if len(stat.Bytes()) != 68 {
		t.Errorf("a stat has %d bytes, want 68", len(stat.Bytes()))
	}
}

// TestRequests: each record, and what is no record.
func TestRequests(t *testing.T) {
	path := "00000002 2f61"
	world := "00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65"
	grants := []ACL{{Perms: 31, Scheme: "world", ID: "anyone"}}
	for text, want := range map[string]Request{
		"00000005 0000000b": {Xid: 5, Op: Ping},
		"00000001 00000001" + path + "00000001 78" + world + "00000003": {Xid: 1, Op: Create, Body: CreateRequest{
			Path: "/a", Data: []byte("x"), ACL: grants, Flags: EphemeralSequential,
		}},
		"00000001 00000015" + path + "ffffffff" + world + "00000005 00000000000003e8": {
			Xid: 1, Op: CreateTTL, Body: CreateRequest{Path: "/a", ACL: grants, Flags: PersistentTTL, TTL: 1000},
		},
		"00000001 00000002" + path + "ffffffff": {Xid: 1, Op: Delete, Body: VersionRequest{Path: "/a", Version: -1}},
		"00000001 00000003" + path + "01":       {Xid: 1, Op: Exists, Body: WatchRequest{Path: "/a", Watch: true}},
		"00000001 00000005" + path + "00000000 00000007": {Xid: 1, Op: SetData, Body: SetDataRequest{
			Path: "/a", Data: []byte{}, Version: 7,
		}},
		"00000001 00000007" + path + world + "00000000": {Xid: 1, Op: SetACL, Body: SetACLRequest{Path: "/a", ACL: grants}},
		"00000001 0000000e 00000002 00 ffffffff" + path + "00000001 ffffffff 01 ffffffff": {
			Xid: 1, Op: Multi,
			Body: MultiRequest{Ops: []Request{{Op: Delete, Body: VersionRequest{Path: "/a", Version: 1}}}},
		},
		"fffffffc 00000064 00000000 00000002 6970 ffffffff": {Xid: AuthXid, Op: Auth, Body: AuthRequest{Scheme: "ip"}},
		"fffffff8 00000069 0000000000000009 00000001" + path + "00000000 ffffffff 00000000 00000000": {
			Xid: WatchesXid, Op: SetWatches2, Body: SetWatchesRequest{Zxid: 9, Data: []string{"/a"}},
		},
		"00000001 0000006a" + path + "00000001": {Xid: 1, Op: AddWatch, Body: TypeRequest{Path: "/a", Type: ModeRecursive}},
	} {
		got, err := ParseRequest(unhex(t, text))
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
		var wrong *FieldError
		if _, err := ParseRequest(unhex(t, text)); !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v, want an error of %s", text, err, field)
		}
	}
}

// FuzzRequest: no input panics, or makes more than a small multiple of its size.
func FuzzRequest(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 14, 0, 0, 0, 2, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, '/', 0, 0, 0, 1})
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 101, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, frame []byte) {
		_, _ = ParseConnect(frame)
		r, err := ParseRequest(frame)
		if err != nil {
			return
		}
		if m, ok := r.Body.(MultiRequest); ok && len(m.Ops)*9 > len(frame) {
			t.Errorf("%d operations in %d bytes", len(m.Ops), len(frame))
		}
		if again, err := ParseRequest(frame); err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("%+v, and again %+v %v", r, again, err)
		}
	})
}

// A multi has at most MaxOps operations, and so has a multiRead.
func TestMultisAreBounded(t *testing.T) {
	for op, of := range map[Op]Op{Multi: Check, MultiRead: GetData} {
		for n, refused := range map[int]bool{MaxOps: false, MaxOps + 1: true} {
			e := &Encoder{}
			e.Int(1)
			e.Int(int32(op))
			for range n {
				e.MultiHeader(MultiHeader{Op: of})
				e.String("/a")
				if of == Check {
					e.Int(-1)
				} else {
					e.Bool(false)
				}
			}
			e.MultiEnd()
			if _, err := ParseRequest(e.Bytes()); (err != nil) != refused {
				t.Errorf("%v of %d operations: %v", op, n, err)
			}
		}
	}
}
