package zk

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

// framed returns a frame whose head names so many bytes, of which some come.
func framed(n int, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(n)), body...) //nolint:gosec // not negative
}

// A length that nothing follows costs little memory: anybody may say one.
func TestHalfFramesAreSmall(t *testing.T) {
	const times = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		f := frames{from: bytes.NewReader(framed(jute.MaxFrame, make([]byte, 100)))}
		if _, err := f.next(nil); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		f.giveBack()
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / times; each > 64<<10 {
		t.Errorf("100 bytes of a frame of %d take %d", jute.MaxFrame, each)
	}
}

// A connection's first frame is short, or none is read: whoever sends it has no session yet.
func TestTheFirstFrameIsShort(t *testing.T) {
	noWord := func([headBytes]byte) bool { return false }
	for n, want := range map[int]error{45: nil, maxConnect: nil, maxConnect + 1: errForeign, jute.MaxFrame: errForeign} {
		f := frames{from: bytes.NewReader(framed(n, make([]byte, n)))}
		if _, err := f.next(noWord); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", n, err, want)
		}
		f.giveBack()
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
			f := frames{from: from, of: &conn{server: &Server{parts: parts{most: jute.MaxFrame}}}}
			if got, err := f.next(nil); err != nil || !bytes.Equal(got, body) {
				t.Errorf("%d bytes %s: %d, %v", n, name, len(got), err)
			}
			if got, err := f.next(nil); err != nil || string(got) != "ab" {
				t.Errorf("behind %d bytes %s: %q, %v", n, name, got, err)
			}
			f.giveBack()
		}
	}
}
