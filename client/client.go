package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/client/internal/core"
	sessions "holdfast/client/internal/core/session"
	"holdfast/client/internal/route"
	"holdfast/client/internal/unary"
	"holdfast/session"
)

// Client holds sessions of one cluster and makes reads and single calls there. Safe for concurrent use.
type Client struct {
	cfg    Config
	clock  *clock
	jitter *route.Jitter
	// spread and served are methods of the client's pool; nil outside pools.
	spread    func(servers []string)
	served    func(server string)
	occupancy occupancy
	seen      *seen // shared with the other clients of a pool

	nodes *unary.Nodes // for reads and calls apart from the sessions; owns the list of servers

	mu     sync.Mutex
	loop   *loop // guarded by mu; nil before the first use
	closed bool  // guarded by mu
}

// New checks cfg and returns a client. It connects to nothing and starts nothing: the first call does, and the client
// has to be closed from then on. The error joins a [session.FieldError] for each thing that is wrong.
func New(cfg Config) (*Client, error) {
	cfg, err := complete(cfg)
	if err != nil {
		return nil, fmt.Errorf("configure client: %w", err)
	}
	c := &Client{
		cfg: cfg, clock: newClock(), seen: new(seen), jitter: route.NewJitter(cfg.Rand, cfg.MinBackoff, cfg.MaxBackoff),
	}
	c.nodes = unary.New(unary.Config{
		Dial: cfg.Dial, Credentials: cfg.dialer.credentials(), ClientName: cfg.ClientName,
		Token: cfg.Token, TokenWithoutTLS: cfg.TokenWithoutTLS,
		Trace:   func(ctx context.Context) *session.Trace { return placeOf(ctx, &cfg) },
		Attempt: cfg.ConnectTimeout, Hedge: cfg.HedgeDelay,
		ReadOnly: cfg.ReadOnly, Jitter: c.jitter,
		Demand: func() uint64 { return c.seen.demand() }, // a pool replaces seen
		OnState: func(state session.NodeState) {
			c.seen.note(nodeReport{cluster: state.Cluster, index: state.Index})
		},
		Connected: c.occupancy.at,
	}, cfg.Endpoints)
	return c, nil
}

// SessionOptions describes which session to open.
type SessionOptions struct {
	// Timeout is the requested timeout: positive, and at most [session.MaxTimeout]. The cluster clamps it to the
	// cluster's bounds, see [Session.Timeout].
	Timeout time.Duration
	// Labels has at most [session.MaxLabels] entries. The client copies the map.
	Labels map[string]string
	// RequestID names the open. A repeat with the same id finds the session that was opened (O2 idempotent opens),
	// while the session lives. So an application may safely repeat an open that ended with [session.ErrOutcomeUnknown].
	// Zero draws an id. The open returns [ErrHeld] when this client holds the session already.
	RequestID session.RequestID
	// Local requests a session that only one node knows (L1 local to one node). A local session needs no log entry and
	// survives every change of leader; it ends with its node's process. Only this node can resume the session, until
	// [Session.Upgrade] has made it global. A RequestID finds the session through the node that opened it; through any
	// other node the same RequestID opens another session. The open is refused with a [session.FieldError] unless the
	// cluster's setting local_sessions is on.
	//
	// A client has one connection. When the connection is lost, a client with local sessions asks their node first. A
	// client that holds only local sessions, and waits for no Open, asks no other node until the promise has run out.
	// When another node serves the client after that, or the client moves with its global sessions, its local sessions
	// end here with a [session.ExpiredError] whose LocalTo is their node. Only that node knows whether they are still
	// alive. To keep local sessions independent of global sessions, use a separate client for each kind.
	Local bool
}

// spec returns what o asks for, checked, in a copy.
func (o *SessionOptions) spec() (s session.Spec, err error) {
	if o.Timeout <= 0 || o.Timeout > session.MaxTimeout {
		return s, &session.FieldError{Field: "timeout", Limit: "positive, at most " + session.MaxTimeout.String()}
	}
	s.Timeout = o.Timeout
	s.Labels, err = session.NewLabels(o.Labels)
	return s, err
}

// Open opens a session and keeps the session alive from then on. Open repeats the request with the same request id
// (O2), through any node that answers, until ctx ends or the cluster refuses for good. When ctx ends, the error wraps
// its cause and the last obstacle, [ErrUnreachable] if no node answered; if the cluster opened the session all the
// same, the session is closed or expires. Other errors: [session.FieldError], [session.LimitError], [ErrHeld],
// [session.ErrClosed] after [Client.Close], [session.ErrOutcomeUnknown] with [FailInFlight], and a
// [session.AccessError] or [session.TLSError] when each node that answers denies this client.
func (c *Client) Open(ctx context.Context, o SessionOptions) (*Session, error) {
	spec, err := o.spec()
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	l, err := c.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	s, err := l.open(ctx, sessions.Want{Spec: spec, Request: o.RequestID, Local: o.Local})
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	return s, nil
}

// Resume takes over the session of t and keeps the session alive from then on, whichever attachment t names; see
// [session.ParseToken]. A client that held the session until now gets [session.ErrMoved]. Resume repeats the request
// until ctx ends or the cluster refuses for good: with [session.ExpiredError], [session.ErrBadCredential], or
// [session.ErrMoved] when other processes were faster eleven times. After a process took the session from another
// process, the cluster protects the new holder from take-overs for half of the session's timeout while the holder is
// connected (M7 no take-over from a living holder). Resume waits for the end of this protection, so give ctx a
// deadline. It returns [ErrHeld] when this client holds the session already. After Resume has returned, the client
// never takes the session back: when another process takes the session over, also while this client has no connection,
// this client gets [session.ErrMoved].
//
// Only its own node can resume a local session. A client without other sessions tries its servers in turn to find this
// node. A client with other sessions stays at its node; if another node has the local session, the error is a
// [session.ExpiredError] whose LocalTo is not 0.
func (c *Client) Resume(ctx context.Context, t session.Token) (*Session, error) {
	if t.ID == 0 {
		return nil, fmt.Errorf("resume session: %w",
			&session.FieldError{Field: "token", Limit: "a session id that is not zero"})
	}
	l, err := c.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("resume session %s: %w", t.ID, err)
	}
	s, err := l.resume(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("resume session %s: %w", t.ID, err)
	}
	return s, nil
}

// Close ends the client and waits for its goroutines. Its sessions end for this client with [session.ErrClosed]. In the
// cluster the sessions live on until another client resumes them or they expire; to close a session in the cluster,
// call [Session.Close] first. Pending calls return [session.ErrClosed]. Close always returns nil, also when called
// again.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	l := c.loop
	c.mu.Unlock()
	c.nodes.Close()
	if l != nil {
		l.stop()
	}
	return nil
}

// Chroot returns the path of the connect string, such as /a/b; empty without a path. Chroot is the root of
// [Client.Tree] and of [Session.Tree]. Sessions have no paths, so a chroot does not affect them.
func (c *Client) Chroot() string { return chrootOf(c.cfg) }

// holds reports whether the client holds a session, or is opening or resuming it.
func (c *Client) holds(id session.ID) bool {
	c.mu.Lock()
	l := c.loop
	c.mu.Unlock()
	held := false
	return l != nil && l.call(func(decides *core.Core) { held = decides.Holds(id) }) && held
}

func (c *Client) begin(ctx context.Context) (*loop, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, session.ErrClosed
	}
	if c.loop == nil {
		c.loop = newLoop(c.cfg, c.clock, shared{&c.occupancy, c.seen, c.served, c.nodes.SetLearnt}, core.Config{
			Instance: c.cfg.Instance, Servers: c.nodes.Servers(), ConnectTimeout: c.cfg.ConnectTimeout,
			HedgeDelay: c.cfg.HedgeDelay, ReadOnly: c.cfg.ReadOnly, FailInFlight: c.cfg.InFlight == FailInFlight,
			OnlyServers: c.cfg.OnlyEndpoints, ResolveNames: c.cfg.Resolve != nil, Jitter: c.jitter, Spread: c.spread,
		})
		c.loop.start(context.WithoutCancel(ctx))
	}
	return c.loop, nil
}

// UpdateServers replaces the configured servers while the client runs. The list has the form of [Config].Endpoints,
// with at most [MaxServers]. Clients that get the same list spread evenly without communicating, and the smallest
// possible number of clients moves. When 3 servers become 5, 40 % of the clients move, all to the new servers; when 5
// become 3, only the clients of the two removed servers move (ZooKeeper's section 10.5 of rules; see docs/clients.md).
// The former node serves a moving client until the new node does.
//
// A client without a connection immediately tries the new servers. Addresses learnt from nodes stay, except those of
// removed servers. The error is a [session.FieldError] or [session.ErrClosed]. Of concurrent calls, any one may take
// effect last.
func (c *Client) UpdateServers(servers []string) error {
	if err := checkEndpoints(servers); err != nil {
		return fmt.Errorf("update servers: %w", err)
	}
	servers = slices.Clone(servers)
	c.nodes.SetServers(servers) // first: a loop that starts after the check below starts with these servers
	c.mu.Lock()
	over, l := c.closed, c.loop
	c.mu.Unlock()
	if over || l != nil && !l.do(core.Servers{List: servers}) {
		return fmt.Errorf("update servers: %w", session.ErrClosed)
	}
	return nil
}
