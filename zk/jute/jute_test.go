package jute

import (
	"bytes"
	"encoding/hex"
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
