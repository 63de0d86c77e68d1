package zk

import (
	"errors"
	"io"
	"net"
	"testing"

	"holdfast/test/bubble"
	"holdfast/zk/jute"
)

// reads returns the end of a client, and a channel with what the reader of its connection ends with.
func reads(t *testing.T, s *Server) (client net.Conn, c *conn, read <-chan error) {
	t.Helper()
	client, here := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	c = newConn(s, here)
	c.line.reads.from = here
	ended, frames := make(chan error, 1), &c.line.reads
	go func() {
		_, err := frames.next(nil)
		ended <- err
	}()
	return client, c, ended
}

// What frames hold of which a part has come is bounded for all connections together: the one that began first ends,
// and those that come to their end are taken.
func TestTheOldestPartOfAFrameEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := New(Config{}, nil)
		s.parts.most = 3 * readAhead
		older, c, olderRead := reads(t, s)
		if _, err := older.Write(framed(jute.MaxFrame, make([]byte, readAhead+1))); err != nil {
			t.Fatal(err)
		}
		newer, _, newerRead := reads(t, s)
		const n = 3*readAhead + readAhead/2 // with the older one's part it holds more than may be
		if _, err := newer.Write(framed(n, make([]byte, n))); err != nil {
			t.Fatal(err)
		}
		if err := <-newerRead; err != nil {
			t.Errorf("the newer one: %v", err)
		}
		if err := <-olderRead; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the older one: %v, want the end of its connection", err)
		}
		c.mu.Lock()
		why := c.why
		c.mu.Unlock()
		if !errors.Is(why, errParts) || !isForeign(why) {
			t.Errorf("it ended with %v, want %v, and a line of the log", why, errParts)
		}
		if s.parts.bytes != 0 || s.parts.all.Len() != 0 {
			t.Errorf("%d bytes of %d frames are left", s.parts.bytes, s.parts.all.Len())
		}
	})
}

// Parts hold what they may and no more; which ends is a matter of when it began, and one that was ended grows no more.
func TestPartsAreBounded(t *testing.T) {
	ended := make(chan int, 10)
	s := parts{most: 100}
	var all [4]*part
	for i := range all {
		all[i] = &part{end: func(error) { ended <- i }}
		if err := s.grow(all[i], 25); err != nil {
			t.Fatal(err)
		}
	}
	s.done(all[0])
	if err := s.grow(all[3], 40); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got != 1 || s.bytes != 90 {
		t.Errorf("%d was ended, and %d bytes are left; want 1 and 90", got, s.bytes)
	}
	if err := s.grow(all[1], 1); !errors.Is(err, errParts) {
		t.Errorf("one that was ended grows: %v", err)
	}
	s.done(all[1])
	if err := s.grow(all[2], 80); !errors.Is(err, errParts) {
		t.Errorf("the oldest takes more than there is: %v", err)
	}
	if got := <-ended; got != 2 || s.bytes != 65 {
		t.Errorf("%d was ended, and %d bytes are left; want 2 and 65", got, s.bytes)
	}
}
