// Package frames reads the frames of ZooKeeper's clients: a length of four bytes, then the bytes. A [Reader] holds no
// buffer between frames, and a [Budget] bounds the memory of incomplete frames at a node.
package frames

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"holdfast/zk/jute"
)

const (
	// HeadBytes is the length of a frame's length.
	HeadBytes = 4
	// maxConnect bounds a ConnectRequest, which has 45 bytes. Without the bound, anyone who reaches the port could make
	// the node hold 1 MiB for each connection, without a session and without a permission.
	maxConnect = readAhead
	// readAhead is how much is read at a time once something has arrived.
	readAhead = 8 << 10
)

// readBuffers are lent to connections that have something to read.
var readBuffers = sync.Pool{New: func() any { return new([readAhead]byte) }} //nolint:gochecknoglobals // a pool

// Reader reads frames. Between frames it holds no buffer. For one goroutine at a time.
type Reader struct {
	from   io.Reader
	budget *Budget
	end    func(error)

	head [HeadBytes]byte
	// headRead is how much of the next frame's head [Reader.Await] has read.
	headRead int
	// buffer is nil while nothing has arrived. buffer[at:until] was read ahead.
	buffer    *[readAhead]byte
	at, until int
}

// NewReader returns a reader of from. When the node has no memory for the rest of a long frame, the budget calls end,
// which must close the connection.
func NewReader(from io.Reader, budget *Budget, end func(error)) Reader {
	return Reader{from: from, budget: budget, end: end}
}

// First returns the first frame, which the caller owns. A four-letter word takes the place of the frame's length
// (H-01): when answer knows the word and returns true, First returns [io.EOF].
func (r *Reader) First(answer func(word [HeadBytes]byte) bool) ([]byte, error) {
	if err := r.readHead(); err != nil {
		return nil, err
	}
	if answer(r.head) {
		return nil, io.EOF
	}
	return r.readBody(maxConnect)
}

// Next returns the next frame, which the caller owns.
func (r *Reader) Next() ([]byte, error) {
	if err := r.readHead(); err != nil {
		return nil, err
	}
	return r.readBody(jute.MaxFrame)
}

// Await waits for the first bytes of a frame, without a buffer.
func (r *Reader) Await() error {
	if r.at < r.until || r.headRead > 0 {
		return nil
	}
	n, err := r.from.Read(r.head[:])
	r.headRead = n
	if n > 0 {
		return nil
	}
	return err
}

// ReadAhead buffers arriving bytes until the connection's read deadline or its end, which it returns, or until the
// buffer is full: then it returns nil.
func (r *Reader) ReadAhead() error {
	r.borrow()
	for r.until < len(r.buffer) {
		n, err := r.from.Read(r.buffer[r.until:])
		if r.until += n; n == 0 && err != nil {
			if r.at == r.until {
				r.Release()
			}
			return err
		}
	}
	return nil
}

// Release returns the buffer.
func (r *Reader) Release() {
	if r.buffer != nil {
		readBuffers.Put(r.buffer)
		r.buffer, r.at, r.until = nil, 0, 0
	}
}

func (r *Reader) borrow() {
	if r.buffer == nil {
		r.buffer = readBuffers.Get().(*[readAhead]byte) //nolint:errcheck // the pool has nothing else
	}
}

func (r *Reader) readHead() error {
	have := r.headRead
	r.headRead = 0
	return r.read(r.head[have:])
}

// readBody reads the frame behind a head. Memory grows with the bytes that arrive: a large length alone costs little,
// however many connections send one.
func (r *Reader) readBody(limit int32) ([]byte, error) {
	length := int32(binary.BigEndian.Uint32(r.head[:])) //nolint:gosec // two's complement on the wire
	if length < 0 || length > limit {
		return nil, fmt.Errorf("%w: a frame of %d bytes: must be 0 to %d", jute.ErrProtocol, length, limit)
	}
	n := int(length)
	frame := make([]byte, min(n, readAhead))
	err := r.read(frame)
	if err == nil && len(frame) < n {
		frame, err = r.readRest(frame, n)
	}
	if err != nil {
		return nil, err
	}
	if r.at == r.until {
		r.Release()
	}
	return frame, nil
}

// readRest reads the rest of a frame of n bytes.
func (r *Reader) readRest(frame []byte, n int) ([]byte, error) {
	p := &partial{end: r.end}
	defer r.budget.release(p)
	for len(frame) < n {
		at := len(frame)
		more := min(n, 2*at)
		if err := r.budget.grow(p, more-at); err != nil {
			return nil, err
		}
		frame = append(make([]byte, 0, more), frame...)[:more]
		if err := r.read(frame[at:]); err != nil {
			return nil, err
		}
	}
	return frame, nil
}

// read fills p. It waits for a head without a buffer, and reads long parts directly into p.
func (r *Reader) read(p []byte) error {
	for len(p) > 0 {
		var n int
		var err error
		switch {
		case r.at < r.until:
			n = copy(p, r.buffer[r.at:r.until])
			r.at += n
		case r.buffer == nil && len(p) <= HeadBytes, len(p) >= readAhead:
			n, err = r.from.Read(p)
		default:
			err = r.fill()
		}
		if n == 0 && err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// fill reads available bytes into a buffer. It returns an error only when there are none.
func (r *Reader) fill() error {
	r.borrow()
	n, err := r.from.Read(r.buffer[:])
	if r.at, r.until = 0, n; n > 0 {
		return nil
	}
	return err
}
