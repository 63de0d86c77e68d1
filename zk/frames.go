package zk

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"

	"holdfast/zk/jute"
)

const (
	// connectWait is how long a connection may be without a ConnectRequest (Z1).
	connectWait = 10 * time.Second
	headBytes   = 4
	// maxConnect bounds a ConnectRequest, which has 45 bytes. Without: whoever reaches the port, and has no session and no
	// permission, lets each connection hold a frame of 1 MiB.
	maxConnect = readAhead
	// readAhead is how much is read at a time once something has come.
	readAhead = 8 << 10
)

// readBuffers are lent to connections that have something to read.
var readBuffers = sync.Pool{New: func() any { return new([readAhead]byte) }} //nolint:gochecknoglobals // a pool

// frames reads frames. Between frames it holds no buffer.
type frames struct {
	from io.Reader
	// of is the connection, whose server counts what has come of long frames.
	of   *conn
	head [headBytes]byte
	// have is how much of a frame's head was read before the frame was asked for.
	have int
	// lent is nil while nothing has come. What was read ahead is lent[at:end].
	lent    *[readAhead]byte
	at, end int
}

// next returns the next frame, which the caller owns. word is told what a connection begins with, if it is not nil: a
// four-letter word stands where a frame's length is (H-01).
func (f *frames) next(word func(head [headBytes]byte) bool) ([]byte, error) {
	have := f.have
	f.have = 0
	if err := f.read(f.head[have:]); err != nil {
		return nil, err
	}
	most := int32(jute.MaxFrame)
	if word != nil {
		if word(f.head) {
			return nil, io.EOF
		}
		most = maxConnect
	}
	n := int32(binary.BigEndian.Uint32(f.head[:])) //nolint:gosec // two's complement on the wire
	if n < 0 || n > most {
		return nil, fmt.Errorf("%w: a frame of %d bytes: must be 0 to %d", errForeign, n, most)
	}
	frame, err := f.body(int(n))
	if err != nil {
		return nil, err
	}
	if f.at == f.end {
		f.giveBack()
	}
	return frame, nil
}

// body reads the n bytes behind a head. It takes memory as they come: a length that nothing follows costs little,
// however many connections say one.
func (f *frames) body(n int) ([]byte, error) {
	frame := make([]byte, min(n, readAhead))
	if err := f.read(frame); err != nil || len(frame) == n {
		return frame, err
	}
	return f.long(frame, n)
}

// long is body behind the first bytes of a long frame.
func (f *frames) long(frame []byte, n int) ([]byte, error) {
	all := &f.of.server.parts
	p := &part{end: f.of.end}
	defer all.done(p)
	for len(frame) < n {
		at := len(frame)
		more := min(n, 2*at)
		if err := all.grow(p, more-at); err != nil {
			return nil, err
		}
		frame = append(make([]byte, 0, more), frame...)[:more]
		if err := f.read(frame[at:]); err != nil {
			return nil, err
		}
	}
	return frame, nil
}

// read fills p. The head of a frame is waited for without a buffer, and what is long is read into its place.
func (f *frames) read(p []byte) error {
	for len(p) > 0 {
		var n int
		var err error
		switch {
		case f.at < f.end:
			n = copy(p, f.lent[f.at:f.end])
			f.at += n
		case f.lent == nil && len(p) <= headBytes, len(p) >= readAhead:
			n, err = f.from.Read(p)
		default:
			err = f.fill()
		}
		if n == 0 && err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// fill reads what there is into a buffer. It has an error only if that is nothing.
func (f *frames) fill() error {
	if f.lent == nil {
		f.lent = readBuffers.Get().(*[readAhead]byte) //nolint:errcheck // the pool has nothing else
	}
	n, err := f.from.Read(f.lent[:])
	if f.at, f.end = 0, n; n > 0 {
		return nil
	}
	return err
}

// ahead keeps what comes, until nothing more does or the buffer is full: then it has no error.
func (f *frames) ahead() error {
	if f.lent == nil {
		f.lent = readBuffers.Get().(*[readAhead]byte) //nolint:errcheck // the pool has nothing else
	}
	for f.end < len(f.lent) {
		n, err := f.from.Read(f.lent[f.end:])
		if f.end += n; n == 0 && err != nil {
			if f.at == f.end {
				f.giveBack()
			}
			return err
		}
	}
	return nil
}

// giveBack returns the buffer.
func (f *frames) giveBack() {
	if f.lent != nil {
		readBuffers.Put(f.lent)
		f.lent, f.at, f.end = nil, 0, 0
	}
}

// first reads the ConnectRequest, or answers a four-letter word.
func (c *conn) first() (jute.ConnectRequest, error) {
	if err := c.net.SetReadDeadline(c.began.Add(connectWait)); err != nil {
		return jute.ConnectRequest{}, err
	}
	f := &c.line.reads
	f.from = c.net
	frame, err := f.next(c.word)
	if err != nil {
		return jute.ConnectRequest{}, fmt.Errorf("%w: %w", errNoConnect, err)
	}
	request, err := jute.ParseConnect(frame)
	if err != nil {
		return request, fmt.Errorf("%w: %w", errForeign, err)
	}
	return request, nil
}

// await waits until something of a frame has come, without a buffer.
func (f *frames) await() error {
	if f.at < f.end || f.have > 0 {
		return nil
	}
	n, err := f.from.Read(f.head[:])
	f.have = n
	if n > 0 {
		return nil
	}
	return err
}
