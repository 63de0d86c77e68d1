package dial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// PeerConfig configures [Peer]. The zero value of a field is its default, if there is one.
type PeerConfig struct {
	// Address of the leader's peer port.
	Address string
	// ClusterID is this node's cluster.
	ClusterID string
	// Dial makes the connection; nil is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Credentials of the transport; nil is plaintext.
	Credentials credentials.TransportCredentials
	// HelloTimeout is the time limit for connecting and for the leader's first message; default 5 s.
	HelloTimeout time.Duration
	// Silence is the time after which a connection without progress counts as cut; default 4 s. gRPC's own client pings
	// at most every 10 s. The leader's peer port tests a quiet connection every Keepalive.Time, so Silence must be
	// above that time plus a round trip.
	Silence time.Duration
	// MaxMessageBytes is the largest message the leader may send; default 4 MiB.
	MaxMessageBytes int
}

// PeerLink is a learner's end of a stream. Send and Recv may each be called by one goroutine at a time, Close by any.
type PeerLink struct {
	conn   *grpc.ClientConn
	stream peerv1.PeerService_FollowClient
	cancel context.CancelCauseFunc
	// first is the leader's first message until Recv has returned it.
	first *session.LeaderMessage
	// term is the leader's term.
	term uint64
	// config and hello are the arguments of Peer.
	config PeerConfig
	hello  session.Hello
}

// Peer opens a stream to the leader, sends hello and waits for the leader's Welcome, which is also the first message
// that Recv returns. The stream ends with ctx; the caller closes it. A node that does not lead returns a
// [session.NotLeaderError]. A node of another cluster, or a node that does not know hello's node, returns
// [session.ErrWrongCluster]. A silent node returns context.DeadlineExceeded. Any other error comes from the connection.
func Peer(ctx context.Context, c PeerConfig, hello session.Hello) (*PeerLink, error) {
	if c.Dial == nil {
		c.Dial = dialTCP
	}
	conn, err := connectPeer(c)
	if err != nil {
		return nil, err
	}
	link, err := follow(ctx, conn, c, hello)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("following %s: %w", c.Address, err), conn.Close())
	}
	return link, nil
}

// connectPeer returns a connection to a peer port that fails when the port is silent for too long.
func connectPeer(c PeerConfig) (*grpc.ClientConn, error) {
	return Client(c.Address, Options{
		Dial:            watched(c.Dial, cmp.Or(c.Silence, 4*time.Second)),
		Credentials:     c.Credentials,
		MaxMessageBytes: cmp.Or(c.MaxMessageBytes, wire.PeerMessageBytes),
	})
}

func follow(ctx context.Context, conn *grpc.ClientConn, c PeerConfig, hello session.Hello) (*PeerLink, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timeout := cmp.Or(c.HelloTimeout, wire.HelloTimeout)
	timer := time.AfterFunc(timeout, func() {
		cancel(fmt.Errorf("waiting %s for the leader's welcome: %w", timeout, context.DeadlineExceeded))
	})
	link := &PeerLink{conn: conn, cancel: cancel, config: c, hello: hello}
	err := link.begin(ctx, c.ClusterID, hello)
	if !timer.Stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return link, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(err)
	return nil, err
}

func (l *PeerLink) begin(ctx context.Context, clusterID string, hello session.Hello) error {
	stream, err := peerv1.NewPeerServiceClient(l.conn).Follow(ctx)
	if err != nil {
		return wire.Domain(err)
	}
	l.stream = stream
	// A failed Send says only that the stream has ended; Recv returns the reason.
	if err = stream.Send(wire.HelloProto(clusterID, hello)); err != nil && !errors.Is(err, io.EOF) {
		return wire.Domain(err)
	}
	first, err := l.Recv()
	if err != nil {
		return err
	}
	if first.Welcome == nil {
		return &session.FieldError{Field: "message", Limit: "a welcome first"}
	}
	l.first, l.term = &first, first.Welcome.Term
	return nil
}

// Send sends a message to the leader. An error ends the stream; Recv returns why the stream ended.
func (l *PeerLink) Send(m session.LearnerMessage) error {
	return wire.SendLearner(m, func(p *peerv1.LearnerMessage) error {
		if err := l.stream.Send(p); err != nil {
			return fmt.Errorf("sending to the leader: %w", wire.Domain(err))
		}
		return nil
	})
}

// Recv returns the leader's next message, or the domain error that ended the stream. It returns io.EOF when the leader
// ended the stream without an error. An invalid message ends the stream.
func (l *PeerLink) Recv() (session.LeaderMessage, error) {
	if first := l.first; first != nil {
		l.first = nil
		return *first, nil
	}
	p, err := l.stream.Recv()
	if err != nil {
		return session.LeaderMessage{}, wire.Domain(err)
	}
	m, err := wire.LeaderFrom(p)
	if err != nil {
		err = fmt.Errorf("reading a message of the leader: %w", err)
		l.cancel(err)
		return session.LeaderMessage{}, err
	}
	return m, nil
}

// Close ends the stream and its connection.
func (l *PeerLink) Close() error {
	l.cancel(session.ErrClosed)
	return l.conn.Close()
}

// watched returns a dial function whose connections fail when nothing arrives, or nothing can be sent, for the time of
// silence.
func watched(dial func(context.Context, string) (net.Conn, error),
	silence time.Duration,
) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		return &watchedConn{Conn: conn, silence: silence}, nil
	}
}

type watchedConn struct {
	net.Conn
	silence time.Duration
}

// Read fails when nothing arrives for the time of silence.
func (c *watchedConn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// Write fails when nothing can be sent for the time of silence.
func (c *watchedConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
