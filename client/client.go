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

// Client holds sessions of one cluster. Safe for concurrent use.
type Client struct {
	cfg    Config
	clock  *clock
	jitter *route.Jitter
	// spread and settled are a pool's, or nil: see Pool.
	spread    func(servers []string)
	settled   func(server string)
	occupancy occupancy
	seen      *seen // a pool's, or its own

	nodes *unary.Nodes // for reads and calls apart from the sessions; owns the list of servers

	mu     sync.Mutex
	loop   *loop // guarded by mu; nil before the first use
	closed bool  // guarded by mu
}

// New checks cfg and returns a client. It connects to nothing and starts nothing: the first [Client.Open] or
// [Client.Resume] does. The error joins a [session.FieldError] for each thing that is wrong.
func New(cfg Config) (*Client, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("configure client: %w", err)
	}
	c := &Client{
		cfg: cfg, clock: newClock(), seen: new(seen), jitter: route.NewJitter(cfg.Rand, cfg.MinBackoff, cfg.MaxBackoff),
	}
	c.nodes = unary.New(unary.Config{
		Dial: cfg.Dial, Principal: cfg.Principal, Attempt: cfg.ConnectTimeout, Hedge: cfg.HedgeDelay,
		ReadOnly: cfg.ReadOnly, Jitter: c.jitter,
		Demand:    func() uint64 { return c.seen.demand() }, // a pool gives its connections another seen
		Heard:     func(index uint64) { c.seen.note(index) },
		Connected: c.occupancy.at,
	}, cfg.Endpoints)
	return c, nil
}

// SessionOptions says what session to open.
type SessionOptions struct {
	// Timeout is the one wanted; the cluster clamps it, see [Session.Timeout]. It must be positive,
	// and at most [session.MaxTimeout].
	Timeout time.Duration
	// Labels are at most [session.MaxLabels].
	Labels map[string]string
	// RequestID names the open: with the same id a repeat finds the session that was opened (O2), while that lives, so
	// an open that ended with [session.ErrOutcomeUnknown] is asked again safely. Zero draws one. [ErrHeld] when this
	// client holds the session.
	RequestID session.RequestID
	// Local asks for a session that one node alone knows (L1): it costs the cluster no log entry, no change of leader
	// ends it, and it ends with its node's process. It can be resumed at that node only, until [Session.Upgrade] has
	// made it global. Refused with a [session.FieldError] unless the cluster's setting local_sessions is on. A
	// RequestID finds it through the node that opened it, and opens another session through any other.
	//
	// A client has one connection. When that is lost, a client with local sessions asks their node first; one that
	// holds nothing else, and waits for no Open, asks no other node until what was promised has run out. When the
	// client is served by another node after that, or moves for the sake of its global sessions, its local ones end
	// here with a [session.ExpiredError] whose LocalTo is their node: there they live on or have ended, nobody else can
	// tell. Local sessions that are not to depend on that are held by a client of their own.
	Local bool
}

// Open opens a session and keeps it alive from then on. It is repeated under one request id (O2), through whichever
// node answers, until ctx ends or the cluster refuses it for good. When ctx ends the error wraps its cause and the last
// thing that stood in the way, [ErrUnreachable] if no node answered; a session that was opened all the same is closed,
// or expires by itself. Other errors: [session.FieldError], [session.LimitError], [session.ErrClosed] after
// [Client.Close], and [session.ErrOutcomeUnknown] if the client was told to [FailInFlight].
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

// Resume takes over the session of t, whichever attachment t names (see [session.ParseToken]), and keeps it alive
// from then on; a client that held it until now is told [session.ErrMoved]. It is repeated until ctx ends or the
// cluster refuses it for good: [session.ExpiredError], [session.ErrBadCredential], and [session.ErrMoved] when
// another process was sooner eleven times. [ErrHeld] when this client holds the session. Once Resume has returned,
// the session is taken back from nobody: a client that loses its connection, and whose session another process takes
// over meanwhile, is told [session.ErrMoved].
//
// A local session is resumed by its node alone. A client that holds nothing else goes round its servers to find that;
// one that does stays where it is, and if that is another node the error is a [session.ExpiredError] whose LocalTo is
// not 0.
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

// Close ends the client and waits for its goroutines. Its sessions end for this client, with [session.ErrClosed], and
// live on in the cluster until they are resumed or expire: to end one, call [Session.Close] first. Calls that wait
// return [session.ErrClosed]. Close returns nil, also when called again.
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

// Chroot returns the path of the connect string, such as /a/b; empty when there is none. Sessions have no paths, so it
// changes nothing about them: it is for the application, and for what keeps a tree.
func (c *Client) Chroot() string { return c.cfg.chroot }

// holds reports whether the client holds a session, or is taking hold of it.
func (c *Client) holds(id session.ID) bool {
	c.mu.Lock()
	l := c.loop
	c.mu.Unlock()
	held := false
	return l != nil && l.ask(func(decides *core.Core) { held = decides.Holds(id) }) && held
}

// begin returns the loop, started at the first use.
func (c *Client) begin(ctx context.Context) (*loop, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, session.ErrClosed
	}
	if c.loop == nil {
		c.loop = newLoop(c.cfg, c.clock, shared{&c.occupancy, c.seen, c.settled}, core.Config{
			Instance: c.cfg.Instance, Servers: c.nodes.Servers(), ConnectTimeout: c.cfg.ConnectTimeout,
			HedgeDelay: c.cfg.HedgeDelay, ReadOnly: c.cfg.ReadOnly, FailInFlight: c.cfg.InFlight == FailInFlight,
			ResolveNames: c.cfg.Resolve != nil, Jitter: c.jitter, Spread: c.spread,
		})
		c.loop.start(context.WithoutCancel(ctx))
	}
	return c.loop, nil
}

// UpdateServers replaces the configured servers, at most [MaxServers] in the form of [Config].Endpoints, while the
// client runs. Clients that do so with the same list end up evenly spread, without knowing of each other, and as few of
// them move as that takes: of 3 servers becoming 5, 40 % of the clients move, all to the new ones; of 5 becoming 3, the
// clients of the two that go (ZooKeeper's section 10.5 of rules; see docs/clients.md). A client that moves is served by
// its former node until another one serves it. One that is not connected looks for a node among the new servers at
// once. Addresses learnt from nodes stay, but for those of removed servers. The error is a [session.FieldError] or
// [session.ErrClosed]. Of calls at the same time one takes effect last.
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
