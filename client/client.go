package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/client/internal/core"
	"holdfast/client/internal/route"
	"holdfast/client/internal/unary"
	"holdfast/session"
)

// Client holds sessions of one cluster and makes reads and single calls there. Safe for concurrent use.
type Client struct {
	cfg    Config
	clock  *clock
	jitter *route.Jitter
	// spread and settled are methods of the pool that the client belongs to; nil outside pools.
	spread    func(servers []string)
	settled   func(server string)
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
		Dial: cfg.Dial, Credentials: cfg.dialer.credentials(), Principal: cfg.Principal,
		Token: cfg.Token, PlainToken: cfg.PlainToken,
		Trace:   func(ctx context.Context) *session.Trace { return placeOf(ctx, &cfg) },
		Attempt: cfg.ConnectTimeout, Hedge: cfg.HedgeDelay,
		ReadOnly: cfg.ReadOnly, Jitter: c.jitter,
		Demand: func() uint64 { return c.seen.demand() }, // a pool gives its connections another seen
		Heard: func(state session.NodeState) {
			c.seen.note(told{cluster: state.Cluster, index: state.Index})
		},
		Connected: c.occupancy.at,
	}, cfg.Endpoints)
	return c, nil
}

// SessionOptions says which session to open.
type SessionOptions struct {
	// Timeout is the wish of the client: positive, and at most [session.MaxTimeout]. The cluster clamps it to its own
	// bounds, see [Session.Timeout].
	Timeout time.Duration
	// Labels has at most [session.MaxLabels] entries. The client copies it.
	Labels map[string]string
	// RequestID names the open. A repeat with the same id finds the session that was opened (O2), while the session
	// lives. So an application may safely repeat an open that ended with [session.ErrOutcomeUnknown]. Zero draws an id.
	// The open returns [ErrHeld] when this client holds the session already.
	RequestID session.RequestID
	// Local asks for a session that one node alone knows (L1). It costs the cluster no log entry, and no change of
	// leader ends it; it ends with its node's process. Only this node can resume it, until [Session.Upgrade] has made
	// it global. A RequestID finds the session through the node that opened it; through any other node it opens another
	// session. The open is refused with a [session.FieldError] unless the cluster's setting local_sessions is on.
	//
	// A client has one connection. When it loses the connection, a client with local sessions asks their node first. A
	// client that holds nothing else, and waits for no Open, asks no other node until the promise has run out. When
	// another node serves the client after that, or the client moves with its global sessions, its local sessions end
	// here with a [session.ExpiredError] whose LocalTo is their node. Only that node knows whether they still live. To
	// keep local sessions independent of global ones, hold them with a client of their own.
	Local bool
}

// Open opens a session and keeps it alive from then on. It repeats the open under one request id (O2), through
// whichever node answers, until ctx ends or the cluster refuses it for good. When ctx ends, the error wraps its cause
// and the last obstacle, [ErrUnreachable] if no node answered; if the session was opened all the same, it is closed or
// expires by itself. Other errors: [session.FieldError], [session.LimitError], [ErrHeld], [session.ErrClosed] after
// [Client.Close], [session.ErrOutcomeUnknown] with [FailInFlight], and a [session.AccessError] or [session.TLSError] when
// each node that answers denies this client.
func (c *Client) Open(ctx context.Context, o SessionOptions) (*Session, error) {
	if o.Timeout <= 0 || o.Timeout > session.MaxTimeout {
		return nil, fmt.Errorf("open session: %w", &session.FieldError{
			Field: "timeout", Limit: "positive, at most " + session.MaxTimeout.String(),
		})
	}
	if _, err := session.NewLabels(o.Labels); err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	l, err := c.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	s, err := l.open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	return s, nil
}

// Resume takes over the session of t and keeps it alive from then on, whichever attachment t names; see
// [session.ParseToken]. A client that held the session until now is told [session.ErrMoved]. Resume repeats the request
// until ctx ends or the cluster refuses it for good: with [session.ExpiredError], [session.ErrBadCredential], or
// [session.ErrMoved] when other processes were faster eleven times. A process that is connected keeps a session for half
// of its timeout after it took the session from another process (M7): Resume waits for that, so give ctx a deadline. It
// returns [ErrHeld] when this client holds the session already. After Resume has returned, the client takes the session
// back from nobody: when another process takes the session over, also while this client has no connection, this client
// is told [session.ErrMoved].
//
// Only its node resumes a local session. A client that holds nothing else goes round its servers to find this node. A
// client that holds other sessions stays where it is; if another node has the local session, the error is a
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
// cluster they live on until another client resumes them or they expire; to end a session there, call [Session.Close]
// first. Calls that wait return [session.ErrClosed]. Close always returns nil, also when called again.
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

// Chroot returns the path of the connect string, such as /a/b; empty for none. It is the root of [Client.Tree] and of
// [Session.Tree]. Sessions have no paths, so a chroot changes nothing about them.
func (c *Client) Chroot() string { return chrootOf(c.cfg) }

// holds reports whether the client holds a session, or is opening or resuming it.
func (c *Client) holds(id session.ID) bool {
	c.mu.Lock()
	l := c.loop
	c.mu.Unlock()
	held := false
	return l != nil && l.ask(func(decides *core.Core) { held = decides.Holds(id) }) && held
}

// begin returns the loop. The first call starts it.
func (c *Client) begin(ctx context.Context) (*loop, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, session.ErrClosed
	}
	if c.loop == nil {
		c.loop = newLoop(c.cfg, c.clock, shared{&c.occupancy, c.seen, c.settled, c.nodes.SetLearnt}, core.Config{
			Instance: c.cfg.Instance, Servers: c.nodes.Servers(), ConnectTimeout: c.cfg.ConnectTimeout,
			HedgeDelay: c.cfg.HedgeDelay, ReadOnly: c.cfg.ReadOnly, FailInFlight: c.cfg.InFlight == FailInFlight,
			OnlyServers: c.cfg.OnlyEndpoints, ResolveNames: c.cfg.Resolve != nil, Jitter: c.jitter, Spread: c.spread,
		})
		c.loop.start(context.WithoutCancel(ctx))
	}
	return c.loop, nil
}

// UpdateServers replaces the configured servers while the client runs. The list has the form of [Config].Endpoints,
// with at most [MaxServers]. Clients that call it with the same list end up evenly spread without knowing of each
// other, and only as many move as this takes. Of 3 servers becoming 5, 40 % of the clients move, all to the new
// servers; of 5 becoming 3, the clients of the two removed servers move (ZooKeeper's section 10.5 of rules; see
// docs/clients.md). The former node of a client that moves serves it until the new node does.
//
// A client without a connection looks for a node among the new servers at once. Addresses that the client learnt from
// nodes stay, except those of removed servers. The error is a [session.FieldError] or [session.ErrClosed]. Of
// concurrent calls, any one takes effect last.
func (c *Client) UpdateServers(servers []string) error {
	if err := checkEndpoints(servers); err != nil {
		return fmt.Errorf("update servers: %w", err)
	}
	servers = slices.Clone(servers)
	c.nodes.SetServers(servers) // first: a loop that begins after the look below begins with these
	c.mu.Lock()
	over, l := c.closed, c.loop
	c.mu.Unlock()
	if over || l != nil && !l.do(core.Servers{List: servers}) {
		return fmt.Errorf("update servers: %w", session.ErrClosed)
	}
	return nil
}
