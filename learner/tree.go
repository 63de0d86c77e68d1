package learner

import (
	"cmp"
	"context"

	treeservice "holdfast/learner/tree"
	"holdfast/learner/tree/dispatch"
	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/session/fair"
	"holdfast/tree"
)

// treeNode is the rest of the node for the tree's part of it. Safe for concurrent use.
type treeNode struct {
	server *Server
}

// Sync returns once the node has applied everything that was committed when the call began (R4 leadership needs a good
// round).
func (n treeNode) Sync(ctx context.Context) error {
	return n.server.Sync(ctx)
}

// Session returns a session of the state.
func (n treeNode) Session(id session.ID) (session.Session, bool) { return n.server.view.Session(id) }

// ReadError returns why the node answers no read of the tree that does not allow old answers (G6 stale nodes refuse),
// nil if it does.
func (n treeNode) ReadError() error {
	s := n.server
	if s.modeFacts.stopping.Load() {
		return session.ErrStopping
	}
	now := s.clock.now()
	switch s.modeFacts.mode(now) {
	case session.ModeReadOnly:
		return session.ErrReadOnly
	case session.ModeNoLeader:
		return session.ErrNoLeader
	case session.ModeReadWrite:
	}
	if s.beats.stale(s.view.AppliedIndex(), now) {
		return session.ErrLagging
	}
	return nil
}

// WatchLimits bounds the memory that a server needs for watches. Zero values are the defaults.
type WatchLimits struct {
	// Changes is the number of changes of the tree, and of sessions, that the server keeps for clients that come back
	// (V3 ring of changes). Unsent is the number of events of a connection's lasting watches that may be unsent (V6
	// LOST). Watches bounds the bytes of a connection's watches, and AllWatches those of all connections (V1 kinds of
	// watches).
	Changes, Unsent, Watches, AllWatches int
}

// hub returns the bounds of the rings.
func (t WatchLimits) hub() dispatch.HubLimits {
	l := dispatch.DefaultHubLimits()
	if t.Changes > 0 {
		l.Changes.Items, l.Sessions.Items = t.Changes, t.Changes
	}
	return l
}

// limits returns the bounds of connections.
func (t WatchLimits) limits() dispatch.Limits {
	l := dispatch.DefaultLimits()
	if t.Unsent > 0 {
		l.Feed.Events = t.Unsent
	}
	if t.Watches > 0 {
		l.Watches = t.Watches
	}
	return l
}

// budgets returns the budgets that all connections share.
func (t WatchLimits) budgets() dispatch.Budgets {
	r := dispatch.DefaultBudgets()
	if t.AllWatches > 0 {
		r.Watches = fair.NewBudget[string](t.AllWatches)
	}
	return r
}

// TreeState is the tree of the applied state after an entry.
type TreeState = treeservice.State

// AppliedTree processes an entry's changes of the tree. The goroutine that applies entries calls it, after Applied.
func (s *Server) AppliedTree(now TreeState, changes []tree.Change, wrote []pending.Outcome) {
	s.local.RecordLogTime(now.Time, s.clock.now())
	s.tree.Applied(now, changes, wrote)
}

// RestoredTree says that a snapshot has replaced the tree. The goroutine that applies entries calls it, after Restored.
func (s *Server) RestoredTree(now TreeState) {
	s.local.RecordLogTime(now.Time, s.clock.now())
	s.tree.Restored(now)
}

// WatchSessions passes the opens, moves and ends of global sessions to send (V8 events need READ).
func (s *Server) WatchSessions(
	ctx context.Context, w session.SessionWatch, send func([]session.SessionEvent) error,
) error {
	return s.tree.WatchSessions(ctx, w, send)
}

// Tree begins the tree's part of the connection.
func (c *connection) Tree(principals []tree.Principal, notify func()) session.TreeConnection {
	return c.server.tree.Connect(treeSessions{c}, principals, notify)
}

// treeSessions are the sessions of a connection for the tree's part of it.
type treeSessions struct{ conn *connection }

// Attachment returns the attachment of a session of the connection, and whether it is local.
func (t treeSessions) Attachment(id session.ID) (attachment uint64, local bool, err error) {
	c := t.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.sessions.find(id); a != nil {
		return a.attachment, false, nil
	}
	if one := c.locals[id]; one != nil {
		return one.Facts().Attachment, true, nil
	}
	return 0, false, c.server.registry.notHere(id)
}

// Upgrade makes a local session of the connection global (U4 the first write upgrades).
func (t treeSessions) Upgrade(ctx context.Context, id session.ID) error {
	attachment, local, err := t.Attachment(id)
	if err != nil || !local {
		return err
	}
	credential, ok := t.conn.server.view.Credential(id)
	if !ok {
		return session.ErrLagging
	}
	_, err = t.upgrade(ctx, session.Token{ID: id, Credential: credential, Attachment: attachment, Local: true})
	return err
}

// upgrade returns the token that a local session has as a global one.
func (t treeSessions) upgrade(ctx context.Context, token session.Token) (session.Token, error) {
	if !t.conn.server.cfg.Upgrade && !t.conn.server.modeFacts.readOnly() { // otherwise the write is refused as others
		return session.Token{}, session.ErrLocalSession
	}
	grant, err := t.conn.Upgrade(ctx, token)
	return grant.Token, err
}

// Adopt touches a session that the node owns, through whichever connection, and returns its token as a global one.
func (t treeSessions) Adopt(ctx context.Context, token session.Token) (session.Token, error) {
	if token.Local {
		return t.upgrade(ctx, token)
	}
	_, err := t.conn.TouchToken(ctx, token)
	return token, err
}

// awaitWrites waits until the earlier writes of a session have been answered: a close comes after them (G7 a
// close waits for writes).
func (c *connection) awaitWrites(ctx context.Context, t session.Token) error {
	return cmp.Or(c.server.registry.authentic(t), c.server.tree.WaitIdle(ctx, t.ID, t.Attachment))
}
