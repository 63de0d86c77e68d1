// Package dial opens connections to the client port and the peer port. Clients link it, so it links no server code.
package dial

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"holdfast/session"
	"holdfast/transport/wire"
)

// Options configures [Client]. The zero value is valid.
type Options struct {
	// Dial makes the connection; nil is TCP. gRPC uses no proxy.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// KeepaliveTime is the time after which a quiet connection is tested, and KeepaliveTimeout the time limit for the
	// answer. 0 means 10 s, which is also gRPC's lower bound, and 5 s.
	KeepaliveTime, KeepaliveTimeout time.Duration
	// MaxMessageBytes is the largest message to receive; 0 means four times [wire.DefaultMessageBytes]. The server
	// bounds its messages, and a client with a smaller limit than the server's would lose its connection.
	MaxMessageBytes int
	// Credentials of the transport; nil is plaintext.
	Credentials credentials.TransportCredentials
	// ClientName is sent with each call as the client's name, see [wire.ValidClientName]; empty sends nothing. The name
	// is not verified.
	ClientName string
	// Digests are sent with each stream, as NAME:PASSWORD, to authenticate the client for the tree (P1 principals).
	Digests []string
	// Token returns the bearer token for each call; a nil Token sends none. TokenWithoutTLS permits sending the token
	// without TLS: otherwise [Client] fails.
	Token           func(ctx context.Context) (string, error)
	TokenWithoutTLS bool
	// UserAgent is put before gRPC's own.
	UserAgent string
	// OnState, when set, is called with the node's state in the answer or the refusal of each unary call, before the
	// call returns. Concurrent calls call it concurrently.
	OnState func(session.NodeState)
}

// windowBytes is the number of bytes that a node may send ahead of the reader. A window of a fixed size is large from
// the start. gRPC's own sizing pings after each answer: a node would answer as many pings as touches.
const windowBytes = 1 << 20

// Client returns a client connection to the node at address, host:port. The node need not be reachable: gRPC connects
// with the first call. As long as there are calls, gRPC reconnects, with a back-off of at most 3 s. The caller closes
// the connection.
func Client(address string, o Options) (*grpc.ClientConn, error) {
	// A target is a URL, which would interpret the zone of an IPv6 address as an escape.
	conn, err := grpc.NewClient("passthrough:///"+url.PathEscape(address), DialOptions(o)...)
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", address, err)
	}
	return conn, nil
}

// DialOptions returns the options that [Client] passes to gRPC.
func DialOptions(o Options) []grpc.DialOption {
	if o.Dial == nil {
		o.Dial = dialTCP
	}
	if o.Credentials == nil {
		o.Credentials = insecure.NewCredentials()
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(o.Credentials),
		grpc.WithContextDialer(o.Dial),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithUserAgent(o.UserAgent),
		grpc.WithReadBufferSize(wire.ReadBufferBytes),
		grpc.WithWriteBufferSize(wire.WriteBufferBytes),
		grpc.WithStaticStreamWindowSize(windowBytes),
		grpc.WithStaticConnWindowSize(windowBytes),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: 3 * time.Second,
			},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time:                cmp.Or(o.KeepaliveTime, 10*time.Second),
			Timeout:             cmp.Or(o.KeepaliveTimeout, 5*time.Second),
			PermitWithoutStream: true,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(cmp.Or(o.MaxMessageBytes, 4*wire.DefaultMessageBytes))),
	}
	if o.OnState != nil {
		options = append(options, grpc.WithUnaryInterceptor(wire.StateInterceptor(o.OnState)))
	}
	if o.ClientName != "" {
		options = append(options, grpc.WithPerRPCCredentials(named(o.ClientName)))
	}
	if o.Token != nil {
		options = append(options, grpc.WithPerRPCCredentials(bearer{o.Token, o.TokenWithoutTLS}))
	}
	if len(o.Digests) > 0 {
		options = append(options, grpc.WithStreamInterceptor(authenticating(o.Digests)))
	}
	return options
}

// authenticating sends digests with each stream. gRPC's own credentials permit only one value for a key.
func authenticating(digests []string) grpc.StreamClientInterceptor {
	pairs := make([]string, 0, 2*len(digests))
	for _, d := range digests {
		pairs = append(pairs, wire.DigestKey, d)
	}
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer,
		opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		return streamer(metadata.AppendToOutgoingContext(ctx, pairs...), desc, cc, method, opts...)
	}
}

// named sends the name of a client with each call.
type named string

// GetRequestMetadata returns the metadata of a call.
func (n named) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{wire.ClientNameKey: string(n)}, nil
}

// RequireTransportSecurity is false: a name is not secret.
func (named) RequireTransportSecurity() bool { return false }

// bearer sends a token with each call.
type bearer struct {
	token func(ctx context.Context) (string, error)
	plain bool
}

// GetRequestMetadata returns the metadata of a call.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.token(ctx)
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	return map[string]string{wire.AuthorizationKey: wire.BearerScheme + " " + token}, nil
}

// RequireTransportSecurity reports whether the token may only be sent over TLS.
func (b bearer) RequireTransportSecurity() bool { return !b.plain }

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}
