// Package peerport serves the streams of learners to the leader.
package peerport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
	"holdfast/transport/port"
	"holdfast/transport/wire"
)

const (
	// flushWait is how long an ending stream may take to write its last message.
	flushWait = 500 * time.Millisecond
	// peerIdle is how long a connection may have no stream: a learner opens a stream at once, and closes the connection
	// with it.
	peerIdle = 10 * time.Second
	// learnerSilence is how long a learner may say nothing. It answers each heartbeat, and a heartbeat comes every
	// interval.
	learnerSilence = time.Minute
	// peerLogInterval keeps a peer that retries all the time from filling the log.
	peerLogInterval = 10 * time.Second
)

// Follower takes the streams of learners. Follow serves one stream until it ends, ctx ends or the node leads no more.
// The link ends when Follow has returned. The error becomes the stream's status; it is a [session.NotLeaderError] when
// this node does not lead.
type Follower interface {
	Follow(ctx context.Context, hello session.Hello, link LeaderLink) error
}

// LeaderLink is a leader's end of a stream. Send and Recv may each be called by one goroutine at a time; both return
// when the stream or its context ends. An invalid message ends the stream.
type LeaderLink interface {
	Send(m session.LeaderMessage) error
	Recv() (session.LearnerMessage, error)
}

// PeerConfig configures a [Server]. The zero value of a field is its default, if it has one.
type PeerConfig struct {
	Logger hclog.Logger
	// Credentials of the transport; nil is plaintext.
	Credentials credentials.TransportCredentials
	// ClusterID is this node's cluster. A peer of another cluster is refused with WRONG_CLUSTER.
	ClusterID string
	// Member reports whether a node number is a member of this cluster; others are refused with WRONG_CLUSTER. nil: all
	// are members.
	Member func(session.Node) bool
	// HelloTimeout is how long the first message of a stream may take; default 5 s.
	HelloTimeout time.Duration
	// Silence is how long a stream may be silent after its first message; default 1 min. It should be well above the
	// interval of heartbeats.
	Silence time.Duration
	// MaxMessageBytes is the largest message a peer may send; default 4 MiB.
	MaxMessageBytes int
	// MaxConnections is the number of connections; default 256.
	MaxConnections int
	// Keepalive says how long a peer that was cut off goes unnoticed: Time and Timeout together. Default 2 s, 2 s, and
	// a ping of the peer every second.
	Keepalive port.Keepalive
}

// Server serves the peer port. Safe for concurrent use.
type Server struct {
	port *port.Port
}

// New returns a server that gives the streams of members to follower. It starts nothing.
func New(cfg PeerConfig, follower Follower) *Server {
	cfg.Logger = cmp.Or(cfg.Logger, hclog.NewNullLogger())
	cfg.HelloTimeout = cmp.Or(cfg.HelloTimeout, wire.HelloTimeout)
	cfg.Silence = cmp.Or(cfg.Silence, learnerSilence)
	p := port.New(port.Config{
		Logger:      cfg.Logger,
		Credentials: cfg.Credentials,
		Limits: port.Limits{
			MessageBytes:         cmp.Or(cfg.MaxMessageBytes, wire.PeerMessageBytes),
			StreamsPerConnection: 4,
			Connections:          cmp.Or(cfg.MaxConnections, 256),
		},
		Keepalive: port.Keepalive{
			Time:    cmp.Or(cfg.Keepalive.Time, 2*time.Second),
			Timeout: cmp.Or(cfg.Keepalive.Timeout, 2*time.Second),
			MinTime: cmp.Or(cfg.Keepalive.MinTime, time.Second),
		},
		MaxIdle: peerIdle,
	})
	peerv1.RegisterPeerServiceServer(p, &peerHandler{
		cfg: cfg, follower: follower, port: p, refusals: rate.Sometimes{Interval: peerLogInterval},
	})
	return &Server{port: p}
}

// Serve accepts connections from listener, which it closes, until [Server.Stop]; the error is nil then.
func (s *Server) Serve(listener net.Listener) error { return s.port.Serve(listener) }

// Stop ends every stream with STOPPING and, when ctx ends, closes every connection. The error is [port.ErrHandlersLeft]
// when streams go on even then.
func (s *Server) Stop(ctx context.Context) error { return s.port.Halt(ctx) }

// peerHandler serves PeerService.
type peerHandler struct {
	peerv1.UnimplementedPeerServiceServer
	cfg      PeerConfig
	follower Follower
	port     *port.Port
	refusals rate.Sometimes
}

// peerStream is the part of a Follow stream that the handler uses.
type peerStream interface {
	Context() context.Context
	Send(*peerv1.LeaderMessage) error
	Recv() (*peerv1.LearnerMessage, error)
}

// Follow serves the stream of one learner.
func (h *peerHandler) Follow(stream peerv1.PeerService_FollowServer) error { return h.follow(stream) }

func (h *peerHandler) follow(stream peerStream) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(context.Canceled)
	h.port.Pump(func() {
		select {
		case <-h.port.Stopping():
			cancel(session.ErrStopping)
		case <-ctx.Done():
		}
	})
	link := newLeaderLink(ctx, cancel)
	h.port.Pump(func() { link.read(stream.Recv, h.cfg.Silence) })
	hello, err := h.hello(ctx, link)
	if err != nil {
		h.refused(hello.Node, err)
		return err
	}
	// A connection whose hello has not named a member stays idle, and may be evicted.
	conn := port.ConnOf(stream.Context())
	conn.SetBusy()
	defer conn.SetIdle()
	link.version = hello.PeerVersion
	h.port.Pump(func() { link.write(stream.Send) })
	err = h.follower.Follow(ctx, hello, link)
	link.flush()
	if bad := link.badMessage(); bad != nil {
		h.refused(hello.Node, bad)
		return bad
	}
	if cause := context.Cause(ctx); errors.Is(cause, session.ErrStopping) {
		return cause
	}
	if errors.Is(err, io.EOF) {
		return nil // the learner has ended the stream
	}
	return err
}

// hello waits for the stream's first message, and checks its sender.
func (h *peerHandler) hello(ctx context.Context, link *leaderLink) (session.Hello, error) {
	timer := time.NewTimer(h.cfg.HelloTimeout)
	defer timer.Stop()
	var first *peerv1.LearnerMessage
	select {
	case first = <-link.in:
	case <-timer.C:
		return session.Hello{}, fmt.Errorf("waiting %s for a hello: %w", h.cfg.HelloTimeout, context.DeadlineExceeded)
	case <-ctx.Done():
		return session.Hello{}, context.Cause(ctx)
	}
	cluster, hello, err := wire.HelloFrom(first)
	switch {
	case err != nil:
		return hello, err
	case cluster != h.cfg.ClusterID:
		return hello, fmt.Errorf("%w: the peer is of cluster %q, this node of %q", session.ErrWrongCluster, cluster,
			h.cfg.ClusterID)
	case h.cfg.Member != nil && !h.cfg.Member(hello.Node):
		return hello, fmt.Errorf("%w: node %d is no member", session.ErrWrongCluster, hello.Node)
	}
	return hello, nil
}

func (h *peerHandler) refused(node session.Node, err error) {
	h.refusals.Do(func() { h.cfg.Logger.Warn("peer refused", "node", node, "error", err) })
}

// leaderLink is the LeaderLink over one stream. gRPC interrupts its own Recv and Send only when the handler has
// returned. So each has a goroutine of its own, which outlives the handler for a moment, and the methods of the link
// wait no longer than its context.
type leaderLink struct {
	ctx    context.Context //nolint:containedctx // the lifetime of the link
	cancel context.CancelCauseFunc
	in     chan *peerv1.LearnerMessage
	out    chan *peerv1.LeaderMessage
	// version is the learner's peer version. It is set before Send is called.
	version uint32
	// ended is closed when nothing more is to be sent, written when the last message was written.
	ended, written chan struct{}

	mu sync.Mutex
	// bad says why a message of the peer was invalid, or that none came. guarded by mu
	bad error
}

func newLeaderLink(ctx context.Context, cancel context.CancelCauseFunc) *leaderLink {
	return &leaderLink{
		ctx: ctx, cancel: cancel,
		in: make(chan *peerv1.LearnerMessage), out: make(chan *peerv1.LeaderMessage),
		ended: make(chan struct{}), written: make(chan struct{}),
	}
}

// read reads the learner's messages until the learner has been silent for too long.
func (l *leaderLink) read(recv func() (*peerv1.LearnerMessage, error), silence time.Duration) {
	timer := time.AfterFunc(silence, func() {
		l.refuse(fmt.Errorf("hearing nothing for %s: %w", silence, context.DeadlineExceeded))
	})
	defer timer.Stop()
	for {
		m, err := recv()
		if err != nil {
			l.cancel(fmt.Errorf("reading from the peer: %w", wire.Domain(err)))
			return
		}
		timer.Reset(silence)
		select {
		case l.in <- m:
		case <-l.ctx.Done():
			return
		}
	}
}

// refuse ends the stream because of the peer's messages or silence.
func (l *leaderLink) refuse(err error) {
	l.mu.Lock()
	l.bad = err
	l.mu.Unlock()
	l.cancel(err)
}

func (l *leaderLink) write(send func(*peerv1.LeaderMessage) error) {
	defer close(l.written)
	for {
		select {
		case m := <-l.out:
			if err := send(m); err != nil {
				l.cancel(fmt.Errorf("writing to the peer: %w", wire.Domain(err)))
				return
			}
		case <-l.ended:
			return
		case <-l.ctx.Done():
			return
		}
	}
}

// flush waits until the messages that Send took are written: the end of the handler would drop them. The wait is short,
// because the peer may hang.
func (l *leaderLink) flush() {
	close(l.ended)
	timer := time.NewTimer(flushWait)
	defer timer.Stop()
	select {
	case <-l.written:
	case <-timer.C:
	}
}

// Recv returns the next message.
func (l *leaderLink) Recv() (session.LearnerMessage, error) {
	select {
	case p := <-l.in:
		m, err := wire.LearnerFrom(p)
		if err != nil {
			err = fmt.Errorf("reading a message of the peer: %w", err)
			l.refuse(err)
			return session.LearnerMessage{}, err
		}
		return m, nil
	case <-l.ctx.Done():
		return session.LearnerMessage{}, context.Cause(l.ctx)
	}
}

// Send hands a message to the stream. A nil error does not say that the peer got it.
func (l *leaderLink) Send(m session.LeaderMessage) error {
	return wire.SendLeader(m, l.version, l.send)
}

func (l *leaderLink) send(p *peerv1.LeaderMessage) error {
	select {
	case l.out <- p:
		return nil
	case <-l.ended:
		return session.ErrClosed
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
}

func (l *leaderLink) badMessage() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bad
}
