package learner

import (
	"cmp"
	"context"

	"holdfast/learner/lane"
	"holdfast/learner/namespace"
	"holdfast/session"
	"holdfast/session/fair"
	"holdfast/tree"
)

// treeNode is what the tree's part of a node uses of the rest of it. Safe for concurrent use.
type treeNode struct {
	server *Server
}

// Forward sends writes to the leader.
func (n treeNode) Forward(all []session.ForwardedWrite) error { return n.server.Forward(all) }

// Acknowledge tells the leader of results that clients have in hand.
func (n treeNode) Acknowledge(all []session.Acknowledged) error { return n.server.Acknowledge(all) }

// Sync returns once the node has applied all that was answered before the call (R4).
func (n treeNode) Sync(ctx context.Context) error {
	return n.server.Sync(ctx)
}

// Session returns a session of the state.
func (n treeNode) Session(id session.ID) (session.Session, bool) { return n.server.view.Session(id) }

// Standing says why the node answers no read of the tree that does not allow old answers (G6).
func (n treeNode) Standing() error {
	s := n.server
	if s.standing.stopping.Load() {
		return session.ErrStopping
	}
	now := s.clock.now()
	switch s.standing.mode(now) {
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

// Telling bounds what a server keeps to tell watches. Zero values are the defaults.
type Telling struct {
	// Changes is how many changes of the tree, and of sessions, the server keeps for clients that come back (V3). Unsent
	// is how many events of a connection's lasting watches may be unsent (V6). Watches bounds the bytes of a connection's
	// watches, and AllWatches those of all connections (V1).
	Changes, Unsent, Watches, AllWatches int
}

// hub returns the bounds of the rings.
func (t Telling) hub() lane.HubLimits {
	l := lane.DefaultHubLimits()
	if t.Changes > 0 {
		l.Changes.Items, l.Sessions.Items = t.Changes, t.Changes
	}
	return l
}

// lane returns the bounds of connections.
func (t Telling) lane() lane.Limits {
	l := lane.DefaultLimits()
	if t.Unsent > 0 {
		l.Feed.Events = t.Unsent
	}
	if t.Watches > 0 {
		l.Watches = t.Watches
	}
	return l
}

// rooms returns the rooms that all connections share.
func (t Telling) rooms() lane.Rooms {
	r := lane.DefaultRooms()
	if t.AllWatches > 0 {
		r.Watches = fair.NewRoom[string](t.AllWatches)
	}
	return r
}

// TreeState is the tree of the applied state after an entry.
type TreeState = namespace.State

// AppliedTree takes what an entry did to the tree. The goroutine that applies entries calls it, after Applied.
func (s *Server) AppliedTree(now TreeState, changes []tree.Change, wrote []lane.Wrote) {
	s.local.thaw(now.Time, s.clock.now())
	s.tree.Applied(now, changes, wrote)
}

// RestoredTree says that a snapshot has replaced the tree. The goroutine that applies entries calls it, after Restored.
func (s *Server) RestoredTree(now TreeState) {
	s.local.thaw(now.Time, s.clock.now())
	s.tree.Restored(now)
}

// WatchSessions tells of global sessions that are opened, moved and ended (V8 of the tree).
func (s *Server) WatchSessions(
	ctx context.Context, w session.SessionWatch, tell func([]session.SessionTold) error,
) error {
	return s.tree.WatchSessions(ctx, w, tell)
}

// Tree begins the tree's part of the connection.
func (c *connection) Tree(principals []tree.Principal, notify func()) session.TreeConnection {
	return c.server.tree.Connect(treeSessions{c}, principals, notify)
}

// treeSessions are the sessions of a connection, as the tree's part of it uses them.
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
		return one.facts.Attachment, true, nil
	}
	return 0, false, c.server.registry.notHere(id)
}

// Upgrade makes a local session of the connection global (U4 of the tree).
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
	if !t.conn.server.upgrades.allowed && !t.conn.server.standing.readOnly() { // otherwise the write is refused as others
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

// settle waits until the writes of a session that came before have been answered: a close goes behind them (G7 of the
// tree).
func (c *connection) settle(ctx context.Context, t session.Token) error {
	return cmp.Or(c.server.registry.authentic(t), c.server.tree.Settle(ctx, t.ID, t.Attachment))
}
