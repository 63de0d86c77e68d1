package frames

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/iotest"

	"holdfast/zk/jute"
)

// framed returns a frame with the length n and the given part of the body.
func framed(n int, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(n)), body...) //nolint:gosec // not negative
}

// A length without bytes behind it costs little memory, because any client may send one.
func TestHalfFramesAreSmall(t *testing.T) {
	const times = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		f := NewReader(bytes.NewReader(framed(jute.MaxFrame, make([]byte, 100))), nil, nil)
		if _, err := f.Next(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		f.Release()
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / times; each > 64<<10 {
		t.Errorf("100 bytes of a frame of %d take %d", jute.MaxFrame, each)
	}
}

// A connection's first frame is short, or it is not read: the sender has no session yet.
func TestTheFirstFrameIsShort(t *testing.T) {
	noWord := func([HeadBytes]byte) bool { return false }
	for n, want := range map[int]error{45: nil, maxConnect: nil, maxConnect + 1: jute.ErrProtocol, jute.MaxFrame: jute.ErrProtocol} {
		f := NewReader(bytes.NewReader(framed(n, make([]byte, n))), nil, nil)
		if _, err := f.First(noWord); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", n, err, want)
		}
		f.Release()
	}
}

// Frames are whole whatever their lengths, and however they come.
func TestFramesOfAllLengths(t *testing.T) {
	for _, n := range []int{0, 1, readAhead - 1, readAhead, readAhead + 1, 3 * readAhead, jute.MaxFrame} {
		body := make([]byte, n)
		for i := range body {
			body[i] = byte(i * 7)
		}
		sent := append(framed(n, body), framed(2, []byte("ab"))...)
		for name, from := range map[string]io.Reader{
			"at once": bytes.NewReader(sent), "in halves": iotest.HalfReader(bytes.NewReader(sent)),
			"with the end": iotest.DataErrReader(bytes.NewReader(sent)),
		} {
			f := NewReader(from, &Budget{limit: jute.MaxFrame}, nil)
			if got, err := f.Next(); err != nil || !bytes.Equal(got, body) {
				t.Errorf("%d bytes %s: %d, %v", n, name, len(got), err)
			}
			if got, err := f.Next(); err != nil || string(got) != "ab" {
				t.Errorf("behind %d bytes %s: %q, %v", n, name, got, err)
			}
			f.Release()
		}
	}
}
