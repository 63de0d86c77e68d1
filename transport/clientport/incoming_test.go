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

// FuzzIncoming compares incoming.Decode with the generated code, after another message.
func FuzzIncoming(f *testing.F) {
	for _, m := range []*holdfastv1.ClientMessage{
		touchMessage(1, 7), touchMessage(1<<40, 7, 1<<63, 9), touchMessage(2), touchMessage(0, 1), openMessage(3),
		batchMessage(touchMessage(1)),
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(b, b...))
		f.Add(b[:len(b)-1])
	}
	before, err := proto.Marshal(touchMessage(5, 3, 4))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in, want := incoming{}, &holdfastv1.ClientMessage{}
		in.Decode(before)
		if !in.Decode(b) {
			if !proto.Equal(&in, want) {
				t.Errorf("% x is not decoded quickly, and leaves %v", b, in.ClientMessage)
			}
			return
		}
		if err := proto.Unmarshal(b, want); err != nil || !proto.Equal(&in, want) {
			t.Errorf("% x is decoded as %v, want %v, %v", b, in.ClientMessage, want, err)
		}
	})
}
