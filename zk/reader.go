package zk

import (
	"errors"
	"os"
	"time"
)

// parkAfter is how long a reader waits for the next request before its connection is parked.
const parkAfter = time.Second

// waiting is what a reader has while it waits for its client.
type waiting struct {
	frames

	parked parked
	// silence is when the client will have been silent for too long.
	silence time.Time
}

// read takes requests until the connection ends or is parked. What waits here must be shallow: its stack is most of the
// memory of a connection that cannot be parked (Z10).
func (c *conn) read() {
	r := &c.line.reads
	for {
		err := r.await()
		switch {
		case err == nil:
			err = c.request()
		case errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(r.silence):
			if c.server.lot.park(&r.parked, r.silence) {
				return
			}
			err = c.net.SetReadDeadline(r.silence)
		}
		if err != nil {
			c.finish(err)
			return
		}
	}
}

// wake is read, of a connection that was parked and has something to read.
func wake(c *conn) {
	if err := c.net.SetReadDeadline(c.line.reads.silence); err != nil {
		c.finish(err)
		return
	}
	c.read()
}

// request takes a request of which something has come.
func (c *conn) request() error {
	r := &c.line.reads
	if r.parked.on != nil { // the deadline is that of rest
		if err := c.net.SetReadDeadline(r.silence); err != nil {
			return err
		}
	}
	frame, err := r.next(nil)
	if err != nil {
		return err
	}
	if err := c.caller.still(); err != nil {
		return err
	}
	if err := c.take(frame); err != nil {
		return err
	}
	return rest(c)
}

// rest begins the wait for a request. A client that is silent for its timeout is gone: its connection ends, and the
// cluster judges its session.
func rest(c *conn) error {
	r, now := &c.line.reads, time.Now()
	r.silence = now.Add(c.timeout)
	if r.parked.on != nil && parkAfter < c.timeout {
		return c.net.SetReadDeadline(now.Add(parkAfter))
	}
	return c.net.SetReadDeadline(r.silence)
}
