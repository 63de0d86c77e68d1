package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/session"
)

func TestStreamsEndWithTheirContext(t *testing.T) {
	var ended atomic.Int32
	// The leader's side hangs in Send, because the learner's does not read, and in Recv.
	follow := func(_ context.Context, _ session.Hello, l LeaderLink) error {
		received := make(chan error, 1)
		go func() {
			_, err := l.Recv()
			received <- err
		}()
		many := make([]session.ID, 1000)
		for i := range many {
			many[i] = session.ID(i + 1)
		}
		err := welcome(l)
		for err == nil {
			err = l.Send(session.LeaderMessage{Heartbeat: &session.Heartbeat{NotTaken: many}})
		}
		if recvErr := <-received; recvErr == nil {
			return errors.New("Recv got something")
		}
		ended.Add(1)
		return err
	}
	t.Run("learner's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := peerPort(t, follow)
			defer p.stop(t)
			network := p.network
			ctx, cancel := context.WithCancel(t.Context())
			link, err := DialPeer(ctx, peerConfig(network), session.Hello{Node: 2})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			cancel()
			synctest.Wait()
			if got := ended.Load(); got != 1 {
				t.Errorf("%d ends on the leader's side after the learner's context ended, want 1", got)
			}
			for range 2000 {
				if _, err = link.Recv(); err != nil {
					break
				}
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the learner's side ended with %v", err)
			}
			if err := link.Close(); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("leader's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := peerPort(t, follow)
			defer p.stop(t)
			network := p.network
			s := p.server
			link := dialPeer(t, network)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			go func() { _ = s.Stop(ctx) }()
			synctest.Wait()
			if got := ended.Load(); got != 2 {
				t.Errorf("the leader's side goes on while its node stops")
			}
			var err error
			for range 2000 {
				if _, err = link.Recv(); err != nil {
					break
				}
			}
			if !errors.Is(err, session.ErrStopping) {
				t.Errorf("the learner's side ended with %v", err)
			}
		})
	})
}

func TestACutPeerIsNoticedByBothSides(t *testing.T) {
	var ended atomic.Int32
	follow := func(ctx context.Context, _ session.Hello, l LeaderLink) error {
		err := welcome(l)
		for err == nil { // a healthy leader
			if err = l.Send(session.LeaderMessage{Heartbeat: &session.Heartbeat{Round: 1}}); err == nil {
				err = sleep(ctx, 500*time.Millisecond)
			}
		}
		ended.Add(1)
		return err
	}
	synctest.Test(t, func(t *testing.T) {
		p := peerPort(t, follow)
		defer p.stop(t)
		network := p.network
		cut := &hole{}
		network.cut = cut.wrap
		link := dialPeer(t, network)
		for range 60 { // half a minute
			if _, err := link.Recv(); err != nil {
				t.Fatalf("a healthy stream ended: %v", err)
			}
		}
		cut.on.Store(true)
		begun := time.Now()
		var err error
		for err == nil {
			_, err = link.Recv()
		}
		if got := time.Since(begun); got > 5*time.Second || status.Code(err) != codes.Unavailable {
			t.Errorf("the learner noticed after %v: %v", got, err)
		}
		if err := link.Send(learnerMessages()[0]); err == nil {
			t.Error("what is sent on an ended stream is lost silently")
		}
		if err := sleep(t.Context(), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if ended.Load() != 1 {
			t.Error("the leader's side goes on")
		}
	})
}

// hole is a cut network: it takes what is written and delivers nothing.
type hole struct{ on atomic.Bool }

func (h *hole) wrap(c net.Conn) net.Conn { return &holeConn{Conn: c, hole: h} }

type holeConn struct {
	net.Conn
	hole *hole
}

func (c *holeConn) Write(b []byte) (int, error) {
	if c.hole.on.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *holeConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.hole.on.Load() {
			return n, err
		}
	}
}

// Close keeps the other side from hearing of it while the network is cut.
func (c *holeConn) Close() error {
	if c.hole.on.Load() {
		go func() { _, _ = io.Copy(io.Discard, c.Conn) }()
		return c.SetReadDeadline(time.Now().Add(time.Minute))
	}
	return c.Conn.Close()
}
