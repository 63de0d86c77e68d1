package clientport

import (
	"context"
	"net"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
)

// slowConn reads so many bytes a second, until ctx ends.
type slowConn struct {
	net.Conn
	ctx  context.Context //nolint:containedctx // the test's context
	rate int
}

func (c slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), c.rate/8)])
	_ = porttest.Sleep(c.ctx, time.Duration(n)*time.Second/time.Duration(c.rate))
	return n, err
}

// TestAReaderOfASlowLink: on a slow link, a large answer needs more time than the patience with a client that reads
// nothing. A client that reads all the time must keep its stream.
func TestAReaderOfASlowLink(t *testing.T) {
	failures := make([]session.TouchFailure, 50_000)
	for i := range failures {
		failures[i] = session.TouchFailure{ID: session.ID(1<<60 + i), Err: session.ErrMoved}
	}
	service := &fakeService{touch: func([]session.ID) session.Touched {
		return session.Touched{SafeFor: -1, Failures: failures}
	}}
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, service)
		defer stop()
		network.Cut = func(c net.Conn) net.Conn { return slowConn{c, t.Context(), 24 << 10} }
		stream := connected(t, network)
		begun := time.Now()
		for seq := range uint64(4) {
			send(t, stream, touchMessage(seq+1))
		}
		for seq := range uint64(4) {
			if got := receive(t, stream).GetTouched(); got.GetSeq() != seq+1 ||
				len(got.GetFailures()) != len(failures) {
				t.Errorf("answer %d names %d sessions", got.GetSeq(), len(got.GetFailures()))
			}
		}
		if took := time.Since(begun); took < 4*port.ReadTimeout {
			t.Errorf("the answers took %v: the link is not slow", took)
		}
		if got := s.Stats().SlowReaders; got != 0 {
			t.Errorf("%d slow readers", got)
		}
	})
}
