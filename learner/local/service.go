package local

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// Node is the rest of the node, as local sessions need it. Safe for concurrent use.
type Node interface {
	// Accepting returns why the node opens no sessions now; nil if it does.
	Accepting() error
	// Authentic checks a token's credential.
	Authentic(token session.Token) error
	// Session returns a session of the replicated state. Certificate returns the certificate of a session, local or
	// global.
	Session(id session.ID) (session.Session, bool)
	Certificate(id session.ID) (session.Certificate, bool)
	// NotServed returns the refusal for a session that the node does not serve, and that may live elsewhere. Gone
	// returns the refusal for a session that neither the state nor this node has.
	NotServed(id session.ID) error
	Gone(id session.ID) error
	// AppliedIndex returns the newest index that the node has applied. WaitApplied waits for an index.
	AppliedIndex() uint64
	WaitApplied(ctx context.Context, index uint64) error
	// Sync returns once the node has applied everything that was committed when the call began (R4 leadership needs a good
	// round).
	Sync(ctx context.Context) error
	// Ask sends a request to the leader and returns the reply.
	Ask(ctx context.Context, r session.Request) (session.Reply, error)
	// ClaimIDs claims a block of session.MaxClaim ids of this node, and returns the first (O3 id blocks).
	ClaimIDs(ctx context.Context) (session.ID, error)
	// Changed is called with each change of a local session, before the client learns of the change. LogEnd logs the
	// end of a session that conn served until its end.
	Changed(c session.Change)
	LogEnd(conn Conn, c *session.Certificate)
}

// Clock returns the node's moments. Safe for concurrent use.
type Clock interface {
	// Now checks for stalls and then returns the present moment.
	Now() time.Duration
	// Stalls are the gaps in which the node did not run, with their credits.
	Stalls() *session.Stalls
	// Wall is the wall clock that dates ids and certificates.
	Wall() time.Time
}

// Config configures a [Service].
type Config struct {
	Node session.Node
	// Allowed permits local sessions (L1 local to one node), Upgrade permits clients to make them global (L7 upgrade).
	Allowed, Upgrade bool
	// Limits clamps the timeouts.
	Limits session.Limits
	// Interval is the heartbeat interval, which determines the times of retries.
	Interval time.Duration
	// Wait bounds the wait of an open for an id.
	Wait   time.Duration
	Logger hclog.Logger
}

// Service serves requests about the local sessions of a [Table]: it claims ids, checks tokens, makes sessions global
// and notifies connections of ends. Safe for concurrent use.
type Service struct {
	cfg   Config
	table *Table
	node  Node
	clock Clock
	// upgrades are the upgrades to request from the leader. ended is closed when run receives no more of them.
	upgrades chan *upgrade
	ended    chan struct{}
}

// NewService returns a service for the sessions of table.
func NewService(cfg Config, table *Table, node Node, clock Clock) *Service {
	return &Service{
		cfg: cfg, table: table, node: node, clock: clock,
		upgrades: make(chan *upgrade), ended: make(chan struct{}),
	}
}

// Run claims ids and requests upgrades until ctx ends.
func (s *Service) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { s.table.ids.run(ctx, s.cfg.Interval, s.cfg.Logger, s.node.ClaimIDs) })
	s.runUpgrades(ctx)
}

// Refill claims more ids at once if few are left.
func (s *Service) Refill() { s.table.ids.refill() }

// Accept checks whether a local session may be opened here (L1), and negotiates its timeout.
func (s *Service) Accept(timeout time.Duration) (time.Duration, error) {
	if !s.cfg.Allowed {
		return 0, &session.FieldError{
			Field: "local", Limit: "false while the cluster's setting local_sessions is off",
		}
	}
	negotiated, err := s.cfg.Limits.Negotiate(timeout)
	if err != nil {
		return 0, err
	}
	return negotiated, s.node.Accepting()
}

// Open opens a session with a negotiated timeout as soon as there is an id: usually at once. After a bounded wait the
// error says why there is no id. The error is a [GlobalError] for a repeated open whose session has become global.
func (s *Service) Open(ctx context.Context, o session.OpenRequest, conn Conn) (*Session, error) {
	timer := time.NewTimer(s.cfg.Wait)
	defer timer.Stop()
	for {
		added := s.table.ids.added()
		opened, err := s.table.Open(o, conn, s.clock.Now())
		s.Refill()
		if opened != nil {
			s.node.Changed(session.Change{Kind: session.Opened, Session: opened.facts})
		}
		if opened != nil || err != nil {
			return opened, err
		}
		select {
		case <-added:
		case <-timer.C:
			return nil, s.table.ids.why()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Resume gives a local session of this node a new attachment (L5 local attachments). It waits for an upgrade in flight.
// here is false when the session has left the local table, or the caller must look it up again.
func (s *Service) Resume(ctx context.Context, r session.ResumeRequest, conn Conn) (one *Session, here bool, err error) {
	if err = s.node.Authentic(r.Token); err != nil {
		return nil, true, err
	}
	if u := s.table.upgradeOf(r.Token.ID); u != nil {
		if err = u.wait(ctx); errors.Is(err, session.ErrOutcomeUnknown) {
			return nil, true, err
		}
		if s.table.upgradeOf(r.Token.ID) == u { // over without a move: only the log knows the outcome
			return nil, true, session.ErrOutcomeUnknown
		}
		return nil, false, nil
	}
	one, left, err := s.table.Resume(r, conn, s.clock.Now())
	if one == nil {
		return nil, err != nil, err
	}
	s.node.Changed(session.Change{Kind: session.Moved, Session: one.facts})
	if left != nil {
		left.MovedLocally(r.Token.ID, one.facts.Attachment, one.facts.Instance)
	}
	return one, true, nil
}

// TouchToken touches a session with a token of a local one. here is false when the session is no longer here.
func (s *Service) TouchToken(token session.Token, now time.Duration) (safeFor time.Duration, here bool, err error) {
	if err = s.node.Authentic(token); err != nil {
		return -1, true, err
	}
	one, err := s.table.ByToken(token)
	if err != nil {
		return -1, true, err
	}
	if one == nil {
		return -1, false, nil
	}
	safe, why := s.table.Touch(one, now)
	if why == nil || s.table.Has(token.ID) {
		return safe, true, why
	}
	return -1, false, nil
}

// NotHere returns the refusal for a local token whose session is not here: the session has ended, or lives elsewhere as
// far as this node knows. An earlier process of this node may have upgraded the session in an entry that this process
// has not applied yet. So the node answers that its own session has ended only with a certificate, or after a good
// round (M5 lagging, not expired).
func (s *Service) NotHere(ctx context.Context, id session.ID) error {
	if _, global := s.node.Session(id); global || id.Node() != s.cfg.Node {
		return s.node.NotServed(id)
	}
	if _, ended := s.node.Certificate(id); !ended {
		if err := s.node.Sync(ctx); err != nil {
			return err
		}
		if _, global := s.node.Session(id); global {
			return s.node.NotServed(id)
		}
	}
	return s.node.Gone(id)
}

// Close ends a local session of this node. It waits for an upgrade in flight. here is false when the session is no
// longer here.
func (s *Service) Close(ctx context.Context, token session.Token) (here bool, err error) {
	if err = s.node.Authentic(token); err != nil {
		return true, err
	}
	if u := s.table.upgradeOf(token.ID); u != nil {
		if err = u.wait(ctx); errors.Is(err, session.ErrOutcomeUnknown) {
			return true, err
		}
	}
	one, err := s.table.ByToken(token)
	if err != nil {
		return true, err
	}
	if one == nil {
		c, ok := s.table.Certificate(token.ID)
		return ok, expired(&c)
	}
	ended, err := s.table.Close(one, s.clock.Now(), s.clock.Wall())
	if err == nil {
		s.announce([]Ended{ended})
	}
	return true, err
}

// Kill ends a local session of this node for an operator. here is false when the log decides about the session.
func (s *Service) Kill(id session.ID, r *session.KillRequest) (here bool, err error) {
	ended, here, err := s.table.Kill(id, r, s.clock.Now(), s.clock.Wall())
	if here && err == nil {
		s.announce([]Ended{ended})
	}
	return here, err
}

// Expire ends the sessions that are due at now (L3 local expiry).
func (s *Service) Expire(now time.Duration) {
	s.announce(s.table.Expire(now, s.clock.Stalls(), s.clock.Wall()))
}

// announce notifies the node and the connections of ended sessions.
func (s *Service) announce(all []Ended) {
	for _, e := range all {
		s.node.Changed(session.Change{Kind: session.Ended, Session: e.Session, Certificate: &e.Certificate})
		s.node.LogEnd(e.Conn, &e.Certificate)
		if e.Conn != nil {
			e.Conn.Gone(e.Certificate)
		}
	}
}
