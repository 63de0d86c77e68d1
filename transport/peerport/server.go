// Package peerport serves the streams of learners to the leader.
package peerport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
	"holdfast/transport/port"
	"holdfast/transport/secure"
	"holdfast/transport/wire"
)

const (
	// flushWait is the time limit for writing the last message of an ending stream.
	flushWait = 500 * time.Millisecond
	// peerIdle is the longest time for which a connection may have no stream: a learner opens a stream at once, and
	// closes the connection with the stream.
	peerIdle = 10 * time.Second
	// learnerSilence is the longest silence of a learner. A learner answers each heartbeat, and a heartbeat comes every
	// interval.
	learnerSilence = time.Minute
	// peerLogInterval keeps a peer that retries all the time from filling the log.
	peerLogInterval = 10 * time.Second
)

// Follower serves the streams of learners. Follow serves one stream until it ends, ctx ends or the node no longer
// leads. The link ends when Follow has returned. The error becomes the stream's status; it is a
// [session.NotLeaderError] when this node does not lead.
type Follower interface {
	Follow(ctx context.Context, hello session.Hello, link LeaderLink) error
}

// LeaderLink is a leader's end of a stream. Send and Recv may each be called by one goroutine at a time; both return
// when the stream or its context ends. An invalid message ends the stream.
type LeaderLink interface {
	Send(m session.LeaderMessage) error
	Recv() (session.LearnerMessage, error)
}

// Forwarder serves the streams of writes. Forward serves one stream until it ends, ctx ends or the node no longer
// leads. The link ends when Forward has returned. The error becomes the stream's status; it is a
// [session.NotLeaderError] when this node does not lead the term that hello names.
type Forwarder interface {
	Forward(ctx context.Context, hello session.ForwardHello, link ForwardLink) error
}

// ForwardLink is a leader's end of a Forward stream. Welcome and Refuse may be called by one goroutine at a time, Recv
// by another; all return when the stream or its context ends. Welcome comes first. An invalid message ends the stream.
type ForwardLink interface {
	Welcome(term uint64) error
	Refuse(all []session.WriteRefusal) error
	Recv() (session.ForwardMessage, error)
}

// PeerConfig configures a [Server]. The zero value of a field is its default, if there is one.
type PeerConfig struct {
	Logger hclog.Logger
	// Credentials of the transport; nil is plaintext.
	Credentials credentials.TransportCredentials
	// ClusterID is this node's cluster. A peer of another cluster is refused with WRONG_CLUSTER.
	ClusterID string
	// Member reports whether a node is a member of this cluster; others are refused with WRONG_CLUSTER. nil: every node
	// is a member.
	Member func(session.Node) bool
	// HelloTimeout is the time limit for the first message of a stream; default 5 s.
	HelloTimeout time.Duration
	// Silence is the longest silence of a Follow stream after its first message; default 1 min. It should be well above
	// the interval of heartbeats.
	Silence time.Duration
	// MaxMessageBytes is the largest message a peer may send; default 4 MiB.
	MaxMessageBytes int
	// MaxConnections is the largest number of connections; default 256.
	MaxConnections int
	// Keepalive is the longest time for which a cut-off peer goes unnoticed: Time plus Timeout. Default 2 s, 2 s, and a
	// ping of the peer every second.
	Keepalive port.Keepalive
}

// Server serves the peer port. Safe for concurrent use.
type Server struct {
	port *port.Port
}

// New returns a server that passes the Follow streams of members to follower, and their Forward streams to forwarder.
// With a nil forwarder, Forward streams are UNIMPLEMENTED. It starts no goroutine.
func New(cfg PeerConfig, follower Follower, forwarder Forwarder) *Server {
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
		cfg: cfg, follower: follower, forwarder: forwarder, port: p,
		refusals: rate.Sometimes{Interval: peerLogInterval},
	})
	return &Server{port: p}
}

// Serve accepts connections from listener, which it closes, until [Server.Stop]; the error is nil then.
func (s *Server) Serve(listener net.Listener) error { return s.port.Serve(listener) }

// Stop ends every stream with STOPPING and, when ctx ends, closes every connection. The error is [port.ErrHandlersLeft]
// when streams still run then.
func (s *Server) Stop(ctx context.Context) error { return s.port.Halt(ctx) }

// peerHandler serves PeerService.
type peerHandler struct {
	peerv1.UnimplementedPeerServiceServer
	cfg       PeerConfig
	follower  Follower
	forwarder Forwarder
	port      *port.Port
	refusals  rate.Sometimes
}

// peerStream is the part of a stream that the handler uses.
type peerStream[In, Out any] interface {
	Context() context.Context
	Send(m *Out) error
	Recv() (*In, error)
}

// Follow serves the stream of one learner.
func (h *peerHandler) Follow(stream peerv1.PeerService_FollowServer) error { return h.follow(stream) }

func (h *peerHandler) follow(stream peerStream[peerv1.LearnerMessage, peerv1.LeaderMessage]) error {
	var hello session.Hello
	return serve(h, stream, h.cfg.Silence,
		func(first *peerv1.LearnerMessage) (cluster string, node session.Node, err error) {
			cluster, hello, err = wire.HelloFrom(first)
			return cluster, hello.Node, err
		},
		func(ctx context.Context, l *link[peerv1.LearnerMessage, peerv1.LeaderMessage]) error {
			return h.follower.Follow(ctx, hello, leaderLink{l})
		})
}

// Forward serves the stream of one node's writes. It may be silent as long as its connection exists: a node whose
// clients write nothing sends nothing.
func (h *peerHandler) Forward(stream peerv1.PeerService_ForwardServer) error {
	if h.forwarder == nil {
		return h.UnimplementedPeerServiceServer.Forward(stream)
	}
	var hello session.ForwardHello
	const mayBeSilent = 0
	return serve(h, stream, mayBeSilent,
		func(first *peerv1.ForwardRequest) (cluster string, node session.Node, err error) {
			cluster, hello, err = wire.ForwardHelloFrom(first)
			return cluster, hello.Node, err
		},
		func(ctx context.Context, l *link[peerv1.ForwardRequest, peerv1.ForwardResponse]) error {
			return h.forwarder.Forward(ctx, hello, forwardLink{l})
		})
}

// serve serves one stream. named returns the sender of the first message, and serveIt serves the rest of the stream.
func serve[In, Out any](
	h *peerHandler, stream peerStream[In, Out], silence time.Duration,
	named func(first *In) (cluster string, node session.Node, err error),
	serveIt func(context.Context, *link[In, Out]) error,
) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(context.Canceled)
	h.port.Pump(func() {
		select {
		case <-h.port.Stopping():
			cancel(session.ErrStopping)
		case <-ctx.Done():
		}
	})
	l := newLink[In, Out](ctx, cancel)
	h.port.Pump(func() { l.read(stream.Recv, silence) })
	first, err := l.first(h.cfg.HelloTimeout)
	var node session.Node
	if err == nil {
		var cluster string
		if cluster, node, err = named(first); err == nil {
			err = h.admit(ctx, cluster, node)
		}
	}
	if err != nil {
		h.refused(node, err)
		return err
	}
	// A connection whose hello has not named a member stays idle, and may be evicted.
	conn := port.ConnOf(stream.Context())
	conn.SetBusy()
	defer conn.SetIdle()
	h.port.Pump(func() { l.write(stream.Send) })
	err = serveIt(ctx, l)
	l.flush()
	if bad := l.badMessage(); bad != nil {
		h.refused(node, bad)
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

// admit returns an error for a stream of another cluster, of a node that is not a member, or of another node than the
// certificate names.
func (h *peerHandler) admit(ctx context.Context, cluster string, node session.Node) error {
	identity, verified := secure.IdentityOf(ctx)
	switch {
	case verified && identity.Name.Node() != node:
		return fmt.Errorf("%w: the hello is node %d's, with the certificate of %v", session.ErrWrongCluster, node,
			identity.Name)
	case cluster != h.cfg.ClusterID:
		return fmt.Errorf("%w: the peer is of cluster %q, this node of %q", session.ErrWrongCluster, cluster,
			h.cfg.ClusterID)
	case h.cfg.Member != nil && !h.cfg.Member(node):
		return fmt.Errorf("%w: node %d is no member", session.ErrWrongCluster, node)
	}
	return nil
}

func (h *peerHandler) refused(node session.Node, err error) {
	h.refusals.Do(func() { h.cfg.Logger.Warn("peer refused", "node", node, "error", err) })
}
