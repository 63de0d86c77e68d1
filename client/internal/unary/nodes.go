// Package unary makes reads and single calls across the nodes of a cluster, without the connection that keeps the
// sessions alive. A call tries one node after the other until a node decides it, in rounds with a back-off between
// them.
package unary

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"holdfast/client/internal/route"
	"holdfast/session"
	"holdfast/transport/dial"
	"holdfast/transport/wire"
)

// TrustFor is how long reads begin at the read-only node that answered last. After that time a read asks all nodes.
const TrustFor = 2 * time.Second

// Call makes a call at one node, over its connection.
type Call func(context.Context, *grpc.ClientConn) error

// Config describes how to reach the nodes. The functions must be safe for concurrent use.
type Config struct {
	// Dial connects to an address; nil is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Credentials are gRPC's; nil is a connection without TLS.
	Credentials credentials.TransportCredentials
	// ClientName is the name of the client, which nodes count rate limits by; empty is no name.
	ClientName string
	// Token and TokenWithoutTLS are those of [dial.Options].
	Token           func(ctx context.Context) (string, error)
	TokenWithoutTLS bool
	// Trace returns the place of a call in a trace, nil for none. A nil Trace names none.
	Trace func(ctx context.Context) *session.Trace
	// Attempt bounds the time of a call at one node.
	Attempt time.Duration
	// Hedge is how long a read waits for a node before it asks the next one too.
	Hedge time.Duration
	// ReadOnly lets read-only nodes answer reads (N3 stale reads).
	ReadOnly bool
	// Jitter draws the waits between rounds.
	Jitter *route.Jitter
	// Demand returns the lowest index that a new read may show, and Heard records each state that a node reported (N4
	// seen index).
	Demand  func() uint64
	OnState func(session.NodeState)
	// Connected returns the server of the connection that keeps the sessions, empty for none. Reads that any node may
	// answer go there first.
	Connected func() string
}

// Nodes makes calls at the nodes of a cluster. It keeps one connection for each called address, and remembers which
// servers answered last. When the servers or the learnt addresses change, it closes the connections to all other
// addresses. Safe for concurrent use.
type Nodes struct {
	cfg Config
	// closing are the goroutines that close connections. They are started with mu held, none after Close has begun.
	closing sync.WaitGroup

	mu      sync.Mutex
	servers []string         // guarded by mu; replaced as a whole
	learnt  []string         // guarded by mu; replaced as a whole
	conns   map[string]*conn // guarded by mu; by address, made by the first call to it
	closed  bool             // guarded by mu
	// good is the address that answered last.
	good string // guarded by mu
	// trusted is the read-only node that answered a read at the moment trustedAt; empty for none.
	trusted   string    // guarded by mu
	trustedAt time.Time // guarded by mu
}

// conn is the connection to one address.
type conn struct {
	cc *grpc.ClientConn
	// early knows whether the two sides did not agree on TLS.
	early *dial.Early
	// calls counts the pending calls. forgotten: the address is neither a server nor learnt, so the last pending call
	// closes the connection. Both are guarded by Nodes.mu.
	calls     int
	forgotten bool
}

// New returns the nodes at servers, which must not change afterwards. It does not connect.
func New(cfg Config, servers []string) *Nodes {
	return &Nodes{cfg: cfg, servers: servers, conns: make(map[string]*conn)}
}

// SetServers replaces the servers. The list must not change afterwards. Rounds that have begun keep the former list.
func (n *Nodes) SetServers(servers []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers = servers
	n.forget()
}

// SetLearnt replaces the addresses of nodes other than the servers. A call goes there when no server answers. The list
// must not change afterwards.
func (n *Nodes) SetLearnt(addresses []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.learnt = addresses
	n.forget()
}

// forget closes the connections to addresses that are neither servers nor learnt, each after its last call: the end of
// its connection would end a call. Called with mu held.
func (n *Nodes) forget() {
	for address, c := range n.conns {
		c.forgotten = !slices.Contains(n.servers, address) && !slices.Contains(n.learnt, address)
		n.closeUnused(address, c)
	}
}

// closeUnused closes a forgotten, unused connection. A goroutine closes it, because the close may take seconds when the
// node does not read any more, and [Nodes.SetLearnt] must not wait. Called with mu held.
func (n *Nodes) closeUnused(address string, c *conn) {
	if n.closed || !c.forgotten || c.calls > 0 {
		return
	}
	delete(n.conns, address)
	n.closing.Go(func() { _ = c.cc.Close() }) // fails only for a connection that is closed already
}

// others returns the learnt addresses in the order of a round.
func (n *Nodes) others() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return startingWith(n.good, n.learnt)
}

// Servers returns the servers in the order of the configuration. The caller must not change the list.
func (n *Nodes) Servers() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.servers
}

// Order returns the servers in the order of a round: the server that answered last comes first. The caller owns the
// list.
func (n *Nodes) Order() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return startingWith(n.good, n.servers)
}

// startingWith returns a copy of servers in which first, if present, has swapped places with the first element.
func startingWith(first string, servers []string) []string {
	servers = slices.Clone(servers)
	if i := slices.Index(servers, first); i > 0 {
		servers[0], servers[i] = servers[i], servers[0]
	}
	return servers
}

// Close closes the connections. Calls end with [session.ErrClosed] from then on.
func (n *Nodes) Close() {
	n.mu.Lock()
	conns := n.conns
	n.closed, n.conns = true, nil
	n.mu.Unlock()
	for _, c := range conns {
		_ = c.cc.Close() // fails only for a connection that is closed already
	}
	n.closing.Wait()
}

// At makes a call at the node at address, within [Config].Attempt. The address need not be a server's. The error is a
// domain error, or [route.ErrUnreachable] when the node does not answer. It wraps the cause of ctx when that has ended
// first.
func (n *Nodes) At(ctx context.Context, address string, call Call) error {
	err := n.at(ctx, address, call)
	if !Over(ctx) || !errors.Is(err, route.ErrSlow) {
		return err
	}
	<-ctx.Done()
	cause := context.Cause(ctx)
	if !route.Late(cause) { // the caller has given up, which is no fault of the node
		return fmt.Errorf("%s: %w", address, cause)
	}
	return route.Unreachable(address, fmt.Errorf("%w: %w", route.ErrSlow, cause))
}

// at is At for calls that continue at other nodes.
func (n *Nodes) at(ctx context.Context, address string, call Call) error {
	c, err := n.acquire(address)
	if err != nil {
		return err
	}
	defer n.release(address, c)
	if n.cfg.Trace != nil {
		if in := n.cfg.Trace(ctx); in != nil {
			ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", in.String())
		}
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Attempt)
	defer cancel()
	err = call(ctx, c.cc)
	if err == nil {
		n.answeredBy(address)
		return nil
	}
	domain := wire.Domain(err)
	switch code := status.Code(err); {
	case errors.Is(domain, session.ErrOutcomeUnknown), route.Classify(domain) == route.Final:
		return domain
	case code != codes.OK && !answered(err) && c.early.Err() != nil:
		return c.early.Err()
	case code == codes.Unavailable && !answered(err):
		return route.Unreachable(address, errors.New(status.Convert(err).Message()))
	case code == codes.DeadlineExceeded, code == codes.Canceled:
		return route.Unreachable(address, route.ErrSlow)
	default:
		return domain
	}
}

// answered reports whether the error of a call comes from the node, and not from the way to it.
func answered(err error) bool {
	code := status.Code(err)
	if code == codes.Unavailable {
		return wire.Domain(err) != err //nolint:errorlint // asks whether the status carried a reason
	}
	return code != codes.DeadlineExceeded && code != codes.Canceled
}

// answeredBy notes that the node at address has answered a call.
func (n *Nodes) answeredBy(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.good = address
}

// acquire returns the connection to address for a call. The first call makes the connection. The caller releases it.
func (n *Nodes) acquire(address string) (*conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, session.ErrClosed
	}
	c := n.conns[address]
	if c == nil {
		early := &dial.Early{}
		dials := n.cfg.Dial
		if dials != nil {
			dials = early.Watch(dials)
		}
		cc, err := dial.Client(address, dial.Options{
			Dial: dials, ClientName: n.cfg.ClientName, Credentials: n.cfg.Credentials,
			Token: n.cfg.Token, TokenWithoutTLS: n.cfg.TokenWithoutTLS,
			OnState: n.cfg.OnState,
		})
		if err != nil {
			return nil, err
		}
		c = &conn{cc: cc, early: early}
		n.conns[address] = c
	}
	c.calls++
	return c, nil
}

// release ends the use of a connection that acquire returned.
func (n *Nodes) release(address string, c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.calls--
	n.closeUnused(address, c)
}

// trustedNode returns the read-only node that answered a read within [TrustFor], empty for none.
func (n *Nodes) trustedNode() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.trusted == "" || time.Since(n.trustedAt) >= TrustFor {
		return ""
	}
	return n.trusted
}

// trust lets reads begin at the read-only node at address from now on.
func (n *Nodes) trust(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trusted, n.trustedAt = address, time.Now()
}

// distrust undoes trust.
func (n *Nodes) distrust() { n.trust("") }
