package frames

import (
	"errors"
	"io"
	"net"
	"testing"

	"holdfast/test/bubble"
	"holdfast/zk/jute"
)

// reads returns the client's end of a connection, a channel with the error that its reader returns, and one with the
// reason for which the budget ended the connection.
func reads(t *testing.T, b *Budget) (client net.Conn, read, ended <-chan error) {
	t.Helper()
	client, here := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	errs, reasons := make(chan error, 1), make(chan error, 1)
	r := NewReader(here, b, func(why error) {
		reasons <- why
		_ = here.Close()
	})
	go func() {
		_, err := r.Next()
		errs <- err
	}()
	return client, errs, reasons
}

// All incomplete frames together are bounded: the one that began first ends, and complete frames are returned.
func TestTheOldestPartialFrameEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := &Budget{limit: 3 * readAhead}
		older, olderRead, olderEnded := reads(t, b)
		if _, err := older.Write(framed(jute.MaxFrame, make([]byte, readAhead+1))); err != nil {
			t.Fatal(err)
		}
		newer, newerRead, _ := reads(t, b)
		const n = 3*readAhead + readAhead/2 // more than the budget, with the older frame
		if _, err := newer.Write(framed(n, make([]byte, n))); err != nil {
			t.Fatal(err)
		}
		if err := <-newerRead; err != nil {
			t.Errorf("the newer one: %v", err)
		}
		if err := <-olderRead; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the older one: %v, want the end of its connection", err)
		}
		if why := <-olderEnded; !errors.Is(why, ErrPartial) {
			t.Errorf("it ended with %v, want %v", why, ErrPartial)
		}
		if b.bytes != 0 || b.all.Len() != 0 {
			t.Errorf("%d bytes of %d frames are left", b.bytes, b.all.Len())
		}
	})
}

// The budget is used to the last byte and not beyond. The age of a frame decides which one ends, and an ended frame
// does not grow.
func TestPartialFramesAreBounded(t *testing.T) {
	ended := make(chan int, 10)
	b := Budget{limit: 100}
	var all [4]*partial
	for i := range all {
		all[i] = &partial{end: func(error) { ended <- i }}
		if err := b.grow(all[i], 25); err != nil {
			t.Fatal(err)
		}
	}
	b.release(all[0])
	if err := b.grow(all[3], 40); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got != 1 || b.bytes != 90 {
		t.Errorf("%d was ended, and %d bytes are left; want 1 and 90", got, b.bytes)
	}
	if err := b.grow(all[1], 1); !errors.Is(err, ErrPartial) {
		t.Errorf("an ended frame grows: %v", err)
	}
	b.release(all[1])
	if err := b.grow(all[2], 80); !errors.Is(err, ErrPartial) {
		t.Errorf("the oldest frame takes more than the budget: %v", err)
	}
	if got := <-ended; got != 2 || b.bytes != 65 {
		t.Errorf("%d was ended, and %d bytes are left; want 2 and 65", got, b.bytes)
	}
}
