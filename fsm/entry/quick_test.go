package entry

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"holdfast/fsm/codec"
	"holdfast/session"
)

// The quick encoder writes the bytes of the generated messages, and both decoders read the same commands from them.
func TestQuickFormsAreTheGeneratedOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		commands := rapid.SliceOfN(rapid.Custom(drawCommand), 1, 4).Draw(t, "commands")
		for _, c := range commands {
			got, err := EncodeCommand(c)
			want, wantErr := encodeGenerated(c)
			if err != nil || wantErr != nil || !bytes.Equal(got, want) {
				t.Fatalf("%+v is % x, %v; generated % x, %v", c, got, err, want, wantErr)
			}
		}
		clocks := Clocks{
			WallMS: rapid.Int64Range(0, codec.MaxClockMS).Draw(t, "wall"),
			Log:    time.Duration(rapid.Int64Range(0, codec.MaxClockMS).Draw(t, "clock")) * time.Millisecond,
		}
		data, err := EncodeAt(commands, clocks)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(data)
		want, wantErr := decodeGenerated(data[FrameSize:])
		if err != nil || wantErr != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("read %+v, %v; generated %+v, %v", got, err, want, wantErr)
		}
	})
}

// Damaged bytes of an entry's message are read, or refused, as the generated messages do.
func TestQuickRefusalsAreTheGeneratedOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data, err := Encode(rapid.SliceOfN(rapid.Custom(drawCommand), 1, 3).Draw(t, "commands"))
		if err != nil {
			t.Fatal(err)
		}
		message := data[FrameSize:]
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			at := rapid.IntRange(0, len(message)-1).Draw(t, "at")
			message[at] = rapid.Byte().Draw(t, "byte")
		}
		got, ok := quickDecode(message)
		want, err := decodeGenerated(message)
		if ok && (err != nil || !reflect.DeepEqual(got, want)) {
			t.Fatalf("read %+v from % x; generated %+v, %v", got, message, want, err)
		}
	})
}

// The commands that are most of the log do go the quick way.
func TestWhatIsQuick(t *testing.T) {
	for _, c := range []session.Command{
		opening(1),
		session.MoveSession{ID: 1, NewOwner: 2, Instance: 3, Attempt: 4, Named: 5, NamedLocal: true},
		session.CloseSessions{Term: 3, Cause: session.CauseExpired, Credited: time.Second, MS: 9000, Sessions: []session.Closing{
			{ID: 1, Attachment: 2, LastTouchAge: time.Second}, {ID: 2, Attachment: 3, LastTouchAge: time.Second},
		}},
	} {
		if _, ok := quickEncode(c); !ok {
			t.Errorf("%T is encoded through generated messages", c)
		}
		encoded, err := EncodeCommand(c)
		if err != nil {
			t.Fatal(err)
		}
		_, _, tag := protowire.ConsumeTag(encoded)
		message, _ := protowire.ConsumeBytes(encoded[tag:])
		if read, ok := quickDecodeCommand(message); !ok || !reflect.DeepEqual(read, c) {
			t.Errorf("%T is read through generated messages, or as %+v", c, read)
		}
		data := Join([][]byte{encoded}, Clocks{})
		if n := testing.AllocsPerRun(100, func() {
			if read, ok := quickDecode(data[FrameSize:]); !ok || !reflect.DeepEqual(read.Commands[0], c) {
				t.Fatalf("read %+v, %v, want %+v", read, ok, c)
			}
		}); n > 8 {
			t.Errorf("%T takes %v allocations to read", c, n)
		}
	}
}

// BenchmarkEntry encodes and decodes entries of 1,024 opens.
func BenchmarkEntry(b *testing.B) {
	commands := make([]session.Command, 1024)
	for i := range commands {
		commands[i] = session.OpenSession{
			Node: 1, MS: uint64(i), Spec: session.Spec{Timeout: 30 * time.Second},
			RequestID: session.RequestID{byte(i), 15: 1},
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		data, err := Encode(commands)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(commands)), "ns/open")
}
