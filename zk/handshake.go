package zk

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"holdfast/session"
	"holdfast/transport/gate"
	"holdfast/transport/secure"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// handshakeWait bounds an open or a resume: the client tries another server when it hears nothing for its timeout.
const handshakeWait = 30 * time.Second

// connect gives the client a session: a new one, or the one that it names (H-10 to H-16).
func (c *conn) connect(r jute.ConnectRequest) error {
	var err error
	if c.principals, err = c.principalsOfConnection(); err != nil {
		return err
	}
	if err = c.caller.admit(c.server.cfg.Access, c.net); err != nil {
		return err
	}
	c.out.sending.plain = secure.Bare(c.net) != nil
	c.instance = randomBits() // before the node can tell the connection anything
	if c.link, err = c.server.service.Connect(c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.server.ctx, handshakeWait)
	defer cancel()
	defer attend(c, cancel)()
	kind := gate.Opens
	if r.SessionID != 0 {
		kind = gate.Resumes
	}
	if err = c.server.cfg.Gate.Admit(time.Now(), kind, 1, c.caller.Caller); err != nil {
		return err
	}
	given, err := grant(ctx, c, r)
	if err != nil {
		c.server.cfg.Gate.Unserved(time.Now(), kind, 1, c.caller.Caller, err)
		if isGone(err) {
			c.server.stats.expired.Add(1)
			_, _ = c.net.Write(jute.ConnectResponse{HasReadOnly: r.HasReadOnly}.Frame())
		}
		return fmt.Errorf("connecting: %w", err)
	}
	if err := c.server.settled(ctx, given.Token); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	return c.welcome(r, given)
}

// electionWait is how long a connect request waits for a leader, and electionPart the part of the timeout that was
// asked for. An election is shorter. A node that is cut off from the others sends its clients on after that.
const (
	electionWait = time.Second
	electionPart = 6
)

// grant opens a session, or moves one here. A client that is sent away while there is no leader finds none at the next
// server either, and after the last one it rests: go-zookeeper and the Java client for a second, which is many times as
// long as an election after a leader's death. So the node asks again for a moment. The repeat of an open is the same
// open (O2), and a resume looks for the newest attachment first. A new cluster has a leader a moment before it has the
// tree (W8), and a session that is opened between the two has no writer (X5): its first write would end the connection.
func grant(ctx context.Context, c *conn, r jute.ConnectRequest) (session.Grant, error) {
	ask := func() (session.Grant, error) { return c.resume(ctx, r) }
	if r.SessionID == 0 {
		o := opening(c, r)
		if o.Local && c.server.service.State().Index < seenOf(r) { // which no entry of its own tells, and no leader mends
			return session.Grant{}, session.ErrLagging
		}
		ask = func() (session.Grant, error) { return c.link.Open(ctx, o) }
	}
	until := time.Now().Add(min(electionWait, time.Duration(max(r.Timeout, 0))*time.Millisecond/electionPart))
	for {
		given, err := ask()
		if err == nil || !leaderless(err) || !time.Now().Before(until) || pause(ctx, resumePause) != nil {
			return given, err
		}
	}
}

// leaderless reports whether a request met no leader, or lost the one that it was sent to.
func leaderless(err error) bool {
	return errors.Is(err, session.ErrNoLeader) || errors.Is(err, session.ErrOutcomeUnknown)
}

// settled waits until the node knows that it may answer reads. Just after an election it applies the leader's entries,
// and so has a session to give out, a moment before it has heard of a good round. Without the wait the first read of a
// client that was let in ends the connection (G6). If it becomes read-only instead, it serves no session of the cluster
// (Z9): the client is to look for another server.
func (s *Server) settled(ctx context.Context, t session.Token) error {
	mode := s.service.State().Mode
	for ; mode == session.ModeNoLeader; mode = s.service.State().Mode {
		if err := pause(ctx, settlePause); err != nil {
			return err
		}
	}
	if mode == session.ModeReadOnly && !t.Local {
		return session.ErrReadOnly
	}
	return nil
}

// welcome begins the tree's part and answers the handshake.
func (c *conn) welcome(r jute.ConnectRequest, grant session.Grant) error {
	c.token, c.timeout = grant.Token, grant.Session.Timeout
	c.period = toldTimeout(c.timeout)
	c.line.begin(grant.Applied)
	c.tree = c.link.Tree(c.who(), c.out.poke)
	if audit := c.server.cfg.Audit; audit != nil {
		c.tree = audit(c.caller.verified(), c.net.RemoteAddr(), c.who(), c.tree)
	}
	c.mu.Lock()
	c.shown.id, c.shown.timeout, c.shown.local = c.token.ID, c.period, c.token.Local
	c.mu.Unlock()
	c.server.stats.opened.Add(1)
	answer := jute.ConnectResponse{
		Timeout: int32(c.period.Milliseconds()), SessionID: int64(c.token.ID), //nolint:gosec // at most hours; bits
		Password: c.token.Credential, HasReadOnly: r.HasReadOnly, ReadOnly: c.token.Local,
	}
	c.out.begin(answer.Frame())
	return nil
}

// opening is the request for a session of a client that asks for P: of 7P/6, in whole milliseconds, so that P is what
// the client may be told (Z4).
func opening(c *conn, r jute.ConnectRequest) session.OpenRequest {
	asked := time.Duration(max(r.Timeout, 0)) * time.Millisecond
	rounded := (asked*7/6 + time.Millisecond - 1).Truncate(time.Millisecond)
	o := session.OpenRequest{
		Timeout: max(rounded, time.Millisecond), MS: session.MS(time.Now()), Instance: c.instance,
		Local: r.ReadOnly && c.server.service.State().Mode == session.ModeReadOnly,
	}
	_, _ = rand.Read(o.RequestID[:])
	return o
}

// attend cancels what is done for a client when the client goes away, until the returned function is called. Without, a
// resume that was delayed on its way to the leader takes the session from a newer connection of its client (Z2). What
// the client sends meanwhile is kept for the reader: the Java client on Netty sends its watches at once.
func attend(c *conn, cancel func()) (done func()) {
	read := make(chan struct{})
	_ = c.net.SetReadDeadline(time.Time{})
	go func() {
		defer close(read)
		if err := c.line.reads.ahead(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			cancel()
		}
	}()
	return func() {
		_ = c.net.SetReadDeadline(time.Unix(1, 0)) // the past
		<-read
	}
}

// resume moves a session here. The client has no attachment to show. So the Move names the newest one that this node
// knows, and is made again if there is a newer one, as long as the client is there (Z2). So it also waits for another
// client to give the session up, or to have had it for half of its timeout (M7).
func (c *conn) resume(ctx context.Context, r jute.ConnectRequest) (session.Grant, error) {
	t := session.Token{ID: session.ID(r.SessionID)} //nolint:gosec // the bits of an id
	if copy(t.Credential[:], r.Password) != len(t.Credential) || len(r.Password) != len(t.Credential) {
		return session.Grant{}, session.ErrBadCredential
	}
	seen, rest := seenOf(r), resumePause
	for attempt := uint64(1); ; attempt++ {
		found, err := c.server.service.Find(ctx, t.ID, session.ReadOptions{Seen: seen})
		if err != nil {
			return session.Grant{}, c.server.elsewhere(t.ID, err)
		}
		t.Attachment, t.Local = found.Session.Attachment, found.Session.Local
		grant, err := c.link.Resume(ctx, session.ResumeRequest{
			Token: t, Instance: c.instance, Attempt: attempt, Seen: seen,
		})
		if err == nil {
			return global(ctx, c, grant)
		}
		if !errors.Is(err, session.ErrMoved) && !errors.Is(err, session.ErrClosing) {
			return grant, err
		}
		if err := pause(ctx, rest); err != nil {
			return session.Grant{}, err
		}
		rest = min(2*rest, longestPause)
	}
}

// seenOf returns the index that the client has seen.
func seenOf(r jute.ConnectRequest) uint64 {
	return tree.Stamp(max(r.LastZxidSeen, 0)).Index() //nolint:gosec // not negative
}

// elsewhere says of a session that is not found whether it may be another node's local session. A session of the
// cluster has a certificate, for as long as the cluster keeps it.
func (s *Server) elsewhere(id session.ID, err error) error {
	gone := (*session.ExpiredError)(nil)
	if !errors.As(err, &gone) || gone.Certificate != nil || s.cfg.KeepsLocal == nil || !s.cfg.KeepsLocal(id.Node()) {
		return err
	}
	return &session.ExpiredError{ID: id, LocalTo: id.Node()}
}

// global makes a local session one of the cluster, unless the node is read-only: no other server answers that it is
// (H-60). Without, a client that looks for a read-write server finds this one for ever. Where sessions may not be
// upgraded, it is closed, as ZooKeeper's is.
func global(ctx context.Context, c *conn, given session.Grant) (session.Grant, error) {
	if !given.Token.Local || c.server.service.State().Mode == session.ModeReadOnly {
		return given, nil
	}
	upgraded, err := c.link.Upgrade(ctx, given.Token)
	if wrong := (*session.FieldError)(nil); errors.As(err, &wrong) {
		c.out.fate.closing.Store(true) // the client is told by the answer to its connect
		return session.Grant{}, cmp.Or(c.link.Close(ctx, given.Token), session.ErrExpired)
	}
	return upgraded, err
}

// settlePause is how long a handshake waits before it looks at the node's mode again.
const settlePause = 10 * time.Millisecond

// resumePause is how long a resume waits before it looks again, when its session was moved or is being closed. Each
// time it waits twice as long, longestPause at most: another client may keep the session for half of its timeout (M7).
const (
	resumePause  = 20 * time.Millisecond
	longestPause = 16 * resumePause
)

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// isGone reports whether a client is told that its session is gone: what [session.Service.Find] says after a good round
// (Z3). A wrong password gets the same answer. An id that may be another node's local session gets none.
func isGone(err error) bool {
	if expired := (*session.ExpiredError)(nil); errors.As(err, &expired) {
		return expired.LocalTo == 0
	}
	return errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrBadCredential)
}

// toldTimeout returns what a client is told of a timeout: 6T/7, in whole milliseconds (Z4).
func toldTimeout(timeout time.Duration) time.Duration {
	return (timeout * 6 / 7).Truncate(time.Millisecond)
}

func randomBits() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return max(binary.BigEndian.Uint64(b[:]), 1)
}
