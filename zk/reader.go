package zk

import (
	"errors"
	"fmt"
	"os"
	"time"

	"holdfast/session"
	"holdfast/zk/jute"
)

const (
	// connectWait is how long a connection may be without a ConnectRequest (Z1 wire).
	connectWait = 10 * time.Second
	// parkAfter is how long a reader waits for the next request before it parks its connection.
	parkAfter = time.Second
)

// readConnect reads the ConnectRequest, or answers a four-letter word.
func (c *conn) readConnect() (jute.ConnectRequest, error) {
	if err := c.net.SetReadDeadline(c.began.Add(connectWait)); err != nil {
		return jute.ConnectRequest{}, err
	}
	frame, err := c.frames.First(c.answerFourLetterWord)
	if err != nil {
		return jute.ConnectRequest{}, fmt.Errorf("%w: %w", errNoConnect, err)
	}
	request, err := jute.ParseConnect(frame)
	if err != nil {
		return request, fmt.Errorf("%w: %w", jute.ErrProtocol, err)
	}
	return request, nil
}

// read reads requests until the connection ends or is parked. The calls below must be shallow while they wait: the
// reader's stack is most of the memory of a connection that cannot be parked (Z10 idle connections).
func (c *conn) read() {
	for {
		err := c.frames.Await()
		switch {
		case err == nil:
			err = c.readRequest()
		case errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(c.silence):
			if c.server.idle.Park(c.parked, c.silence) {
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

// resumeReading is read, of a parked connection that has something to read.
func (c *conn) resumeReading() {
	if err := c.net.SetReadDeadline(c.silence); err != nil {
		c.finish(err)
		return
	}
	c.read()
}

// readRequest reads a request whose first bytes have arrived.
func (c *conn) readRequest() error {
	if c.parked.CanPark() { // the deadline may be that of parkAfter
		if err := c.net.SetReadDeadline(c.silence); err != nil {
			return err
		}
	}
	frame, err := c.frames.Next()
	if err != nil {
		return err
	}
	if err := c.client.stillAdmitted(); err != nil {
		return err
	}
	if err := c.handle(frame); err != nil {
		return err
	}
	return c.beginWait()
}

// handle touches the session and queues the request of a frame. An error ends the connection.
func (c *conn) handle(frame []byte) error {
	if t := c.link.Touch([]session.ID{c.session.token.ID}); len(t.Failures) > 0 {
		return fmt.Errorf("touching: %w", t.Failures[0].Err)
	}
	c.server.counters.requests.Add(1)
	c.received.Add(1)
	r, err := c.handler.Request(frame)
	if r == nil || err != nil {
		return err
	}
	if err := c.queue.WaitForCapacity(c.server.ctx, c.session.timeout); err != nil {
		return err
	}
	return c.queue.Add(r)
}

// beginWait begins the wait for a request. The connection of a client that is silent for its timeout ends; the cluster
// decides about the session.
func (c *conn) beginWait() error {
	now := time.Now()
	c.silence = now.Add(c.session.timeout)
	if c.parked.CanPark() && parkAfter < c.session.timeout {
		return c.net.SetReadDeadline(now.Add(parkAfter))
	}
	return c.net.SetReadDeadline(c.silence)
}
