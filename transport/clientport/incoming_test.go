package clientport

import (
	"testing"

	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
)

// A touch of a few named sessions is decoded quickly, every other message by the generated code, and each message as if
// no other had come before it.
func TestIncomingMessages(t *testing.T) {
	touch := func(m *holdfastv1.Touch) *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Touch{Touch: m}}
	}
	traced := touch(&holdfastv1.Touch{Seq: 1, Ids: []uint64{7}})
	traced.Trace = make([]byte, 25)
	unknown := touch(&holdfastv1.Touch{Seq: 1, Ids: []uint64{7}})
	unknown.ProtoReflect().SetUnknown([]byte{0xf8, 0x3f, 1})
	var in incoming
	for i, tt := range []struct {
		m     *holdfastv1.ClientMessage
		quick bool
	}{
		{touch(&holdfastv1.Touch{Seq: 1 << 40, Ids: []uint64{7, 1 << 63, 9}}), true},
		{touch(&holdfastv1.Touch{Seq: 5, Ids: []uint64{1}}), true},
		{touch(&holdfastv1.Touch{Ids: []uint64{1}}), true}, // its seq is refused later
		{touch(&holdfastv1.Touch{Seq: 2, Ids: make([]uint64, fewIDs)}), true},
		{touch(&holdfastv1.Touch{Seq: 2, Ids: make([]uint64, fewIDs+1)}), false},
		{touch(&holdfastv1.Touch{Seq: 3}), false},
		{touch(&holdfastv1.Touch{Seq: 4, Ids: []uint64{7}, AckedIds: []uint64{7}, Acked: []uint64{1}}), false},
		{traced, false},
		{unknown, false},
		{openMessage(6), false},
		{&holdfastv1.ClientMessage{}, false},
		{batchMessage(touchMessage(1)), false},
		{touch(&holdfastv1.Touch{Seq: 8, Ids: []uint64{2}}), true},
	} {
		b, err := proto.Marshal(tt.m)
		if err != nil {
			t.Fatal(err)
		}
		quick := in.Decode(b)
		if !quick {
			err = proto.Unmarshal(b, &in)
		}
		if quick != tt.quick || err != nil || !proto.Equal(&in, tt.m) {
			t.Errorf("message %d, %v, is %v, quickly %t: %v", i, tt.m, in.ClientMessage, quick, err)
		}
	}
	for _, b := range [][]byte{nil, {0x1a}, {0x1a, 0x80}, {0x1a, 2, 0x12, 1}, {0x1a, 3, 0x12, 1, 0}} {
		if in.Decode(b) || !proto.Equal(&in, &holdfastv1.ClientMessage{}) {
			t.Errorf("% x is decoded as %v", b, in.ClientMessage)
		}
	}
	b, _ := proto.Marshal(touch(&holdfastv1.Touch{Seq: 9, Ids: []uint64{3}}))
	if n := testing.AllocsPerRun(100, func() { in.Decode(b) }); n > 0 {
		t.Errorf("a touch of one session allocates %v times", n)
	}
}
