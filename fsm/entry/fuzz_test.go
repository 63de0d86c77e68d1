package entry

import (
	"bytes"
	"reflect"
	"testing"

	"holdfast/session"
	"holdfast/test/fuzz/bound"
)

// inMemory bounds the memory that bytes of the log may take. The most expensive two bytes are an empty message in a
// list.
func inMemory() bound.Cost { return bound.Cost{PerByte: 1 << 10, Fixed: 1 << 20} }

// FuzzDecode: commands that were decoded can be encoded, and then decode to the same commands.
func FuzzDecode(f *testing.F) {
	for _, c := range everyCommand() {
		f.Add(messageOf(f, c, opening(9)))
	}
	f.Add(bytes.Repeat([]byte{commandsField<<3 | 2, 0}, 2000))
	f.Fuzz(func(t *testing.T, message []byte) {
		data := Join([][]byte{message}, Clocks{})
		var e Entry
		var err error
		inMemory().Hold(t, len(data), func() { e, err = Decode(data) })
		if quick, ok := quickDecode(message); ok {
			if want, bad := decodeGenerated(message); bad != nil || !reflect.DeepEqual(quick, want) {
				t.Fatalf("read %+v; the generated messages %+v, %v", quick, want, bad)
			}
		}
		if err != nil {
			return
		}
		again, err := EncodeAt(e.Commands, e.Clocks)
		if err != nil {
			t.Fatalf("%+v was decoded and cannot be encoded: %v", e, err)
		}
		if got, err := Decode(again); err != nil || !reflect.DeepEqual(got, e) {
			t.Fatalf("Decode = %+v, %v\nwant %+v", got, err, e)
		}
	})
}

// messageOf returns the message of an entry of commands.
func messageOf(f *testing.F, commands ...session.Command) []byte {
	f.Helper()
	data, err := Encode(commands)
	if err != nil {
		f.Fatal(err)
	}
	return data[FrameSize:]
}
