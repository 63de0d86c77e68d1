package zk

import (
	"errors"
	"os"
	"time"
)

// parkAfter is how long a reader waits for the next request before its connection is parked.
const parkAfter = time.Second

// read takes requests until the connection ends or is parked. What waits here must be shallow: its stack is most of the
// memory of a connection that cannot be parked (Z10).
func (c *conn) read() {
	for {
		err := c.line.frames.await()
		switch {
		case err == nil:
			err = c.request()
		case errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(c.silence):
			if c.server.lot.park(&c.parked, c.silence) {
				return
			}
			err = c.net.SetReadDeadline(c.silence)
		}
		if err != nil {
			c.finish(err)
			return
		}
	}
}

// resumeReading is read, of a connection that was parked and has something to read.
func (c *conn) resumeReading() {
	if err := c.net.SetReadDeadline(c.silence); err != nil {
		c.finish(err)
		return
	}
	c.read()
}

// request takes a request of which something has come.
func (c *conn) request() error {
	if c.parked.on != nil {
		if err := c.net.SetReadDeadline(c.silence); err != nil {
			return err
		}
	}
	frame, err := c.line.frames.next(nil)
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
	now := time.Now()
	c.silence = now.Add(c.timeout)
	if c.parked.on != nil && parkAfter < c.timeout {
		return c.net.SetReadDeadline(now.Add(parkAfter))
	}
	return c.net.SetReadDeadline(c.silence)
}
