package learner

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/learner/local"
	"holdfast/session"
)

// connection is one client connection, with the sessions that were opened or resumed through it.
type connection struct {
	server *Server
	// unary means that the connection has no listener: it is that of a single call, which names its sessions by token.
	unary bool
	// events is nil for unary calls, and once the connection has ended: the table refers to the connection as long as
	// its sessions live, and would otherwise keep everything of the client's stream alive.
	events atomic.Pointer[session.Events]
	// client is the connection's client, for the log.
	client session.Client
	// knownHealth is the node's health as the client knows it. guarded by clients.mu
	knownHealth health
	// drained says that the client knows that the node is being drained. guarded by clients.mu
	drained bool
	// over is set when the connection has ended.
	over atomic.Bool
	// confirming is the number of touches that wait for confirmation.
	confirming atomic.Int32

	mu sync.Mutex
	// sessions are the connection's global sessions, and briefly some ended ones. guarded by mu
	sessions attachedSet
	// locals are the connection's local sessions, and briefly some ended ones. guarded by mu
	locals map[session.ID]*local.Session
	// parked are the requests that wait for the index that the client has seen. guarded by mu
	parked map[*parked]struct{}
}

// Open opens a session through the leader, and serves it once this node has applied the open. A local session is opened
// without the leader.
func (c *connection) Open(ctx context.Context, o session.OpenRequest) (session.Grant, error) {
	if o.Local {
		return c.openLocal(ctx, o)
	}
	return c.ask(ctx, session.Request{Open: &o}, session.Token{})
}

// ask asks the leader for an open or a resume, and serves the session once this node has applied the entry too (M3
// served in the leader's term). t is the token of a resume.
func (c *connection) ask(ctx context.Context, r session.Request, t session.Token) (session.Grant, error) {
	received := c.server.clock.checkedNow()
	late := c.server.releaseUnwanted
	if r.Resume == nil { // an open moves no session away from another client
		late = func(session.Reply, error) {}
	}
	reply, err := c.server.upstream.askFor(ctx, r, late)
	if err != nil {
		return session.Grant{}, c.server.registry.explain(ctx, reply, err, t)
	}
	if err := c.server.wait.index(ctx, reply.Index); err != nil {
		late(reply, nil)
		return session.Grant{}, err
	}
	return c.serve(reply, received)
}

// Resume moves a session here through the leader, and serves it once this node has applied the move. A local session of
// this node gets its new attachment from the node itself.
func (c *connection) Resume(ctx context.Context, r session.ResumeRequest) (session.Grant, error) {
	if err := c.server.mayResume(ctx, r); err != nil {
		return session.Grant{}, err
	}
	for c.server.local.Has(r.Token.ID) {
		if err := ctx.Err(); err != nil {
			return session.Grant{}, err
		}
		if grant, here, err := c.resumeLocal(ctx, r); here {
			return grant, err
		}
	}
	if certificate, ok := c.server.local.Certificate(r.Token.ID); ok {
		return session.Grant{}, cmp.Or(c.server.registry.authentic(r.Token), expired(&certificate))
	}
	if err := c.server.wait.seen(ctx, r.Seen); err != nil { // a local session has become global since
		return session.Grant{}, err
	}
	return c.ask(ctx, session.Request{Resume: &r}, r.Token)
}

// mayResume refuses at once what a read-only node would refuse later (N2 read-only refusals), and waits for the index
// that the client has seen (N4 seen index). Local sessions that only this node knows are exempt: no state elsewhere is
// newer, and without a leader such a session would expire (L1 local to one node).
func (s *Server) mayResume(ctx context.Context, r session.ResumeRequest) error {
	switch {
	case s.local.Decides(r.Token.ID):
		return nil
	case s.modeFacts.readOnly() && !s.local.Has(r.Token.ID):
		return session.ErrReadOnly
	default:
		return s.wait.seen(ctx, r.Seen)
	}
}

// serve begins to serve an attachment that the leader has applied and granted. The caller has waited until this node
// has applied it too (M3). A request that an earlier entry had already carried out confirms no touch (S2 opens and
// moves are touches). The repeat of an open that went through another node leaves the session there (O2 idempotent
// opens).
func (c *connection) serve(reply session.Reply, received time.Duration) (session.Grant, error) {
	s := c.server
	credential, ok := s.view.Credential(reply.Session.ID)
	if !ok {
		return session.Grant{}, session.ErrLagging
	}
	grant := session.Grant{
		Session: reply.Session,
		Token:   session.Token{ID: reply.Session.ID, Credential: credential, Attachment: reply.Session.Attachment},
		SafeFor: -1,
	}
	grant.Applied, grant.Floor = s.tree.Numbers(reply.Session.ID)
	if reply.Session.Owner != s.cfg.Node {
		return grant, nil
	}
	confirmed := mark{tag: s.table.nextTag(), at: received}
	now := s.clock.checkedNow()
	if reply.Repeated || s.clock.stalls.suspendedSince(received) {
		confirmed = mark{}
	}
	a, err := s.attach(reply.Session, c, confirmed, now)
	if err != nil {
		return session.Grant{}, err
	}
	c.add(a)
	if confirmed.tag != 0 {
		// The client counts from the moment when it sent the request, so the full promise is safe (S3 with k = r).
		grant.SafeFor = session.SafeFor(a.timeout(), 0)
	}
	return grant, nil
}

// attach serves an attachment, unless the state has a newer one or the end of the session: this node may have applied
// either before attach put the session into the table, where Applied would have found it. After a panic the session is
// not served, and its request is refused.
func (s *Server) attach(granted session.Session, c *connection, confirmed mark, now time.Duration) (*attached, error) {
	a := s.table.attach(granted, c, confirmed, now)
	if a == nil {
		return nil, s.registry.moved(granted.ID)
	}
	judged := false
	defer func() {
		if !judged {
			s.table.drop(a, session.ErrOutcomeUnknown)
		}
	}()
	current, ok := s.view.Session(granted.ID)
	judged = true
	switch {
	case !ok:
		err := s.registry.gone(granted.ID)
		s.table.end(granted.ID, 0, err)
		return nil, err
	case current.Attachment != granted.Attachment:
		why := session.MovedTo(current)
		s.table.end(granted.ID, current.Attachment, why)
		return nil, why
	}
	return a, nil
}

// add adds a to the connection's sessions, unless they include a newer attachment of the session: two resumes through
// one connection may arrive here in the wrong order.
func (c *connection) add(a *attached) {
	c.addAll([]*attached{a})
}

// addAll adds many sessions, see add.
func (c *connection) addAll(all []*attached) {
	if !c.keep(all) {
		c.server.connectionEnded(all...)
	}
}

// keep adds sessions as addAll does. It returns false if the connection keeps no sessions, because it is unary or has
// ended.
func (c *connection) keep(all []*attached) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unary || c.over.Load() {
		return false
	}
	for _, a := range all {
		if newer := c.sessions.find(a.id); newer == nil || newer.attachment <= a.attachment {
			c.sessions.put(a)
		}
	}
	return true
}

// forget removes ended sessions, unless a newer attachment is served through this connection. The caller first queues
// the event that announces the end: so a later touch of all sessions either names the end or follows the event. forget
// leaves the list of all to that touch.
func (c *connection) forget(ids []session.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if a := c.sessions.find(id); a != nil && c.server.table.find(id) != a {
			c.sessions.drop(id)
		}
		if s := c.locals[id]; s != nil && !c.server.local.Serves(s) {
			delete(c.locals, id)
		}
	}
}

// Promised returns the time from now in which a session of this connection cannot expire; negative for no promise.
func (c *connection) Promised(id session.ID) time.Duration {
	now := c.server.clock.checkedNow()
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.sessions.find(id); a != nil {
		return c.server.table.promised(a, now)
	}
	return -1
}

// Touch touches sessions of this connection.
func (c *connection) Touch(ids []session.ID) session.Touched {
	now := c.server.clock.checkedNow()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(ids) == 0 {
		return c.touchAll(now)
	}
	var out outcome
	for _, id := range ids {
		safe, err := c.touchOne(id, now)
		out.add(id, safe, err)
	}
	return out.touched()
}

// touchAll touches every session of the connection. A session that has ended since the last touch is a failure, once:
// the client may receive the event of its end only after this answer, and must not mistake the promise of the other
// sessions for the ended session's (I3 an acknowledged touch counts). Called with mu held.
func (c *connection) touchAll(now time.Duration) session.Touched {
	var out outcome
	c.server.table.touchAll(&c.sessions, now, &out)
	for _, ended := range out.failures {
		c.sessions.drop(ended.ID)
	}
	if len(c.locals) > 0 {
		out.addLocals(c.server.local.TouchAll(c.locals, now))
	}
	return out.touched()
}

// touchOne touches one session. Called with mu held.
func (c *connection) touchOne(id session.ID, now time.Duration) (time.Duration, error) {
	if a := c.sessions.find(id); a != nil {
		return c.touch(a, now)
	}
	s := c.locals[id]
	if s == nil {
		return -1, c.server.registry.notHere(id)
	}
	safe, err := c.server.local.Touch(s, now)
	if err != nil {
		delete(c.locals, id)
	}
	return safe, err
}

// touch touches one global session, and removes an ended one. Called with mu held.
func (c *connection) touch(a *attached, now time.Duration) (time.Duration, error) {
	safe, err := c.server.table.touch(a, now)
	if err != nil {
		c.sessions.drop(a.id)
	}
	return safe, err
}

// outcome combines the outcomes of all touches of one request.
type outcome struct {
	touches  int
	safe     time.Duration
	failures []session.TouchFailure
}

func (o *outcome) add(id session.ID, safe time.Duration, err error) {
	if err != nil {
		o.failures = append(o.failures, session.TouchFailure{ID: id, Err: err})
		return
	}
	if o.touches == 0 || safe < o.safe {
		o.safe = safe
	}
	o.touches++
}

// addLocals adds the outcome of a touch of local sessions.
func (o *outcome) addLocals(t local.Touched) {
	if t.Sessions > 0 && (o.touches == 0 || t.SafeFor < o.safe) {
		o.safe = t.SafeFor
	}
	o.touches += t.Sessions
	o.failures = append(o.failures, t.Failures...)
}

func (o *outcome) touched() session.Touched {
	if o.touches == 0 {
		o.safe = -1
	}
	return session.Touched{SafeFor: o.safe, Failures: o.failures}
}

// TouchToken touches a session that this node owns. After a restart the node serves an attachment again as soon as the
// present leader has applied it (M3).
func (c *connection) TouchToken(ctx context.Context, t session.Token) (time.Duration, error) {
	s := c.server
	now := s.clock.checkedNow()
	if t.Local {
		return s.touchLocal(ctx, t, now)
	}
	if err := s.verify(ctx, t); err != nil {
		return -1, err
	}
	a := s.table.find(t.ID)
	if a == nil {
		var err error
		if a, err = s.reattach(t, now); err != nil {
			return -1, err
		}
	}
	switch {
	case a.attachment > t.Attachment:
		return -1, s.registry.moved(t.ID)
	case a.attachment < t.Attachment:
		return -1, session.ErrLagging
	}
	return s.table.touch(a, now)
}

// verify checks a token's credential, and waits a bounded time until this node has applied the token's attachment (M5
// lagging, not expired).
func (s *Server) verify(ctx context.Context, t session.Token) error {
	if err := s.registry.authentic(t); err != nil {
		return err
	}
	return s.wait.attachment(ctx, t.Attachment)
}

// reattach serves the session of a token again if this node owns it according to the state.
func (s *Server) reattach(t session.Token, now time.Duration) (*attached, error) {
	current, ok := s.view.Session(t.ID)
	if !ok && s.local.Has(t.ID) {
		return nil, session.ErrLagging // the token says that the session is global, but the state does not show it yet
	}
	if !ok {
		return nil, s.registry.gone(t.ID)
	}
	if current.Attachment != t.Attachment || current.Owner != s.cfg.Node {
		return nil, session.MovedTo(current)
	}
	if s.beats.reportedAttachment() < t.Attachment {
		return nil, session.ErrLagging
	}
	return s.attach(current, nil, mark{}, now)
}

// Close ends a session through the leader. When Close returns nil, this node has applied the end. A local session of
// this node ends without the leader.
func (c *connection) Close(ctx context.Context, t session.Token) error {
	if t.Local {
		here, err := c.server.locals.Close(ctx, t)
		if here {
			return err
		}
		t = c.server.table.translate(t) // the leader explains the fate of a token that stays local (L6)
	}
	if err := c.awaitWrites(ctx, t); err != nil {
		return err
	}
	reply, err := c.server.upstream.ask(ctx, session.Request{Close: &t})
	if err != nil {
		return c.server.registry.explain(ctx, reply, err, t)
	}
	return c.server.wait.index(ctx, reply.Index)
}

// Upgrade makes a local session of this node global, and touches it (L7 upgrade). A session that is already global
// stays as it is. Requests that need a global session call Upgrade.
func (c *connection) Upgrade(ctx context.Context, t session.Token) (session.Grant, error) {
	s := c.server
	if err := s.registry.authentic(t); err != nil {
		return session.Grant{}, err
	}
	if s.modeFacts.readOnly() {
		return session.Grant{}, session.ErrReadOnly // a running upgrade still keeps its own outcome (N2)
	}
	if t.Local {
		if err := s.locals.Upgrade(ctx, t); err != nil {
			return session.Grant{}, err
		}
		if t = s.table.translate(t); t.Local {
			return session.Grant{}, s.locals.NotHere(ctx, t.ID)
		}
	}
	safe, err := c.TouchToken(ctx, t)
	if err != nil {
		return session.Grant{}, err
	}
	now, ok := s.view.Session(t.ID)
	if !ok || now.Attachment != t.Attachment {
		return session.Grant{}, s.registry.notHere(t.ID)
	}
	return session.Grant{Session: now, Token: t, SafeFor: safe}, nil
}

// listener returns the receiver of the connection's events, nil for none.
func (c *connection) listener() session.Events {
	if c == nil {
		return nil
	}
	if to := c.events.Load(); to != nil {
		return *to
	}
	return nil
}

// Disconnect ends the connection. Its sessions live on. Sessions asked for but not yet granted will not be served by
// it, and requests not yet sent to the leader stop waiting. The table refers to the connection as long as the sessions
// live, so the connection drops its references to them and to its listener.
func (c *connection) Disconnect() {
	c.over.Store(true)
	c.events.Store(nil)
	c.server.clients.remove(c)
	c.endWaits()
	c.mu.Lock()
	had := c.sessions.slots
	c.sessions = attachedSet{}
	clear(c.locals)
	c.mu.Unlock()
	c.server.connectionEnded(had...)
}
