package peerport

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/dial"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
	"holdfast/transport/wire"
)

func TestStreamsEndWithTheirContext(t *testing.T) {
	var ended atomic.Int32
	// The leader's side hangs in Send, because the learner does not read, and in Recv.
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
			err = l.Send(session.LeaderMessage{Heartbeat: &session.Heartbeat{Interval: time.Second, RejectedTouches: many}})
		}
		if recvErr := <-received; recvErr == nil {
			return errors.New("Recv got something")
		}
		ended.Add(1)
		return err
	}
	t.Run("learner's", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			p := peerPort(t, follow)
			defer p.stop(t)
			network := p.network
			ctx, cancel := context.WithCancel(t.Context())
			link, err := dial.Peer(ctx, peerConfig(network), session.Hello{Node: 2})
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
		bubble.Test(t, func(t *testing.T) {
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
		for err == nil { // heartbeats of a healthy leader
			if err = l.Send(session.LeaderMessage{Heartbeat: &session.Heartbeat{Interval: time.Second, Round: 1}}); err == nil {
				err = porttest.Sleep(ctx, 500*time.Millisecond)
			}
		}
		ended.Add(1)
		return err
	}
	bubble.Test(t, func(t *testing.T) {
		p := peerPort(t, follow)
		defer p.stop(t)
		network := p.network
		cut := &hole{}
		network.Cut = cut.wrap
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
			t.Error("sending on an ended stream returns no error")
		}
		time.Sleep(5 * time.Second)
		if ended.Load() != 1 {
			t.Error("the leader's side goes on")
		}
	})
}

// hole is a network that can be cut: it then accepts bytes and delivers nothing, not even the end of the other side.
type hole struct{ on atomic.Bool }

func (h *hole) wrap(c net.Conn) net.Conn {
	return &holeConn{Conn: c, hole: h, closed: make(chan struct{})}
}

type holeConn struct {
	net.Conn
	hole   *hole
	once   sync.Once
	closed chan struct{}

	mu       sync.Mutex
	deadline time.Time
}

func (c *holeConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.Conn.SetReadDeadline(t)
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
		if !c.hole.on.Load() {
			return n, err
		}
		if err != nil {
			return 0, c.silence()
		}
	}
}

// silence waits for the read deadline, or for Close.
func (c *holeConn) silence() error {
	c.mu.Lock()
	deadline := c.deadline
	c.mu.Unlock()
	if deadline.IsZero() {
		<-c.closed
		return net.ErrClosed
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-timer.C:
		return os.ErrDeadlineExceeded
	case <-c.closed:
		return net.ErrClosed
	}
}

// Close delays the end at the other side by a minute while the network is cut.
func (c *holeConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	if !c.hole.on.Load() {
		return c.Conn.Close()
	}
	go func() {
		_ = c.Conn.SetReadDeadline(time.Now().Add(time.Minute))
		_, _ = io.Copy(io.Discard, c.Conn)
		c.Conn.Close()
	}()
	return nil
}

// TestTheLastMessageIsWritten: the end of the handler must not lose the writer's last message.
func TestTheLastMessageIsWritten(t *testing.T) {
	for name, tt := range map[string]struct{ write, took time.Duration }{
		"slow": {100 * time.Millisecond, 100 * time.Millisecond},
		"hung": {time.Hour, flushWait},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				h := &peerHandler{
					cfg: PeerConfig{
						ClusterID: "c", HelloTimeout: time.Second, Silence: time.Minute, Logger: hclog.NewNullLogger(),
					},
					port: port.New(port.Config{Logger: hclog.NewNullLogger()}),
					follower: followFunc(func(_ context.Context, _ session.Hello, l LeaderLink) error {
						return welcome(l)
					}),
				}
				ctx, cancel := context.WithCancel(t.Context())
				stream := &slowStream{ctx: ctx, write: tt.write}
				begun := time.Now()
				if err := h.follow(stream); err != nil {
					t.Error(err)
				}
				if got := time.Since(begun); got != tt.took {
					t.Errorf("the stream ended after %v, want %v", got, tt.took)
				}
				if got := stream.sent.Load(); (got == 1) != (tt.write == tt.took) {
					t.Errorf("%d messages sent", got)
				}
				cancel() // gRPC does this when the handler has returned
				if err := h.port.Halt(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// slowStream is a stream whose peer says hello and reads slowly.
type slowStream struct {
	ctx   context.Context //nolint:containedctx // this is how gRPC hands a stream its context
	write time.Duration
	hello atomic.Bool
	sent  atomic.Int32
}

func (s *slowStream) Context() context.Context { return s.ctx }

func (s *slowStream) Recv() (*peerv1.LearnerMessage, error) {
	if !s.hello.Swap(true) {
		return wire.HelloProto("c", session.Hello{Node: 2}), nil
	}
	<-s.ctx.Done()
	return nil, s.ctx.Err()
}

func (s *slowStream) Send(*peerv1.LeaderMessage) error {
	if err := porttest.Sleep(s.ctx, s.write); err != nil {
		return err
	}
	s.sent.Add(1)
	return nil
}
