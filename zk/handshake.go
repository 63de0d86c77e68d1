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
	"holdfast/transport/ratelimit"
	"holdfast/transport/secure"
	"holdfast/tree"
	"holdfast/zk/jute"
	"holdfast/zk/operations"
	"holdfast/zk/writer"
)

const (
	// handshakeWait bounds an open or a resume: a client that gets no answer within its timeout tries another server.
	handshakeWait = 30 * time.Second
	// electionWait is how long a connect request waits for a leader, and electionPart the part of the requested
	// timeout. Elections are shorter. After this wait a node that is cut off from the others sends its clients away.
	electionWait = time.Second
	electionPart = 6
	// modePause is the interval at which a handshake checks the node's mode.
	modePause = 10 * time.Millisecond
	// resumePause is the wait before a resume's second try, when its session was moved or is being closed. Each wait is
	// twice as long, at most longestPause: another client may keep the session for half of its timeout (M7 no take-over
	// from a living holder).
	resumePause  = 20 * time.Millisecond
	longestPause = 16 * resumePause
)

// connect gives the client a session: a new session, or the session that the client names (H-10 to H-16).
func (c *conn) connect(r jute.ConnectRequest) error {
	principals, err := principalsOf(c.net)
	if err != nil {
		return err
	}
	if err = c.client.admit(c.server.cfg.Access, c.net); err != nil {
		return err
	}
	plain := secure.Bare(c.net) != nil
	c.session.instance = randomBits() // before the node sends the session its first event
	if c.link, err = c.server.service.Connect(&c.session); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.server.ctx, handshakeWait)
	defer cancel()
	defer c.cancelWhenLeft(cancel)()
	kind := ratelimit.Opens
	if r.SessionID != 0 {
		kind = ratelimit.Resumes
	}
	if err = c.server.cfg.Limiter.Admit(time.Now(), kind, 1, c.client.Caller); err != nil {
		return err
	}
	h := handshake{
		service: c.server.service, keepsLocal: c.server.cfg.KeepsLocal, link: c.link, request: r,
		instance: c.session.instance, closing: func() { c.session.closing.Store(true) },
	}
	grant, err := h.grant(ctx)
	if err != nil {
		c.server.cfg.Limiter.Unserved(time.Now(), kind, 1, c.client.Caller, err)
		if isGone(err) {
			c.server.counters.expired.Add(1)
			_, _ = c.net.Write(jute.ConnectResponse{HasReadOnly: r.HasReadOnly}.Frame())
		}
		return fmt.Errorf("connecting: %w", err)
	}
	if err := h.waitForReads(ctx, grant.Token); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	c.begin(r, grant, principals, plain)
	return nil
}

// begin starts the rooms of the connection, and answers the handshake.
func (c *conn) begin(r jute.ConnectRequest, grant session.Grant, principals []tree.Principal, plain bool) {
	s := c.server
	c.tree = c.link.Tree(principals, c.writer.Wake)
	if s.cfg.Audit != nil {
		c.tree = s.cfg.Audit(c.client.verified(), c.net.RemoteAddr(), principals, c.tree)
	}
	c.queue.Begin(c.tree, grant.Token, grant.Applied)
	c.session.begin(grant)
	c.handler = operations.New(operations.Config{
		Connection: c, Queue: c.queue, Tree: c.tree, Token: grant.Token, Counters: &s.counters.operations,
		Principals: principals, Super: s.cfg.Super, Members: s.cfg.Members,
		ReadOnly: func() bool { return s.mode() == session.ModeReadOnly },
	})
	s.counters.opened.Add(1)
	answer := jute.ConnectResponse{
		Timeout:   int32(c.session.clientTimeout.Milliseconds()), //nolint:gosec // at most hours
		SessionID: int64(grant.Token.ID),                         //nolint:gosec // the bits of an id
		Password:  grant.Token.Credential, HasReadOnly: r.HasReadOnly, ReadOnly: grant.Token.Local,
	}
	c.writer.Begin(writer.Session{
		ID: grant.Token.ID, Local: grant.Token.Local, Timeout: c.session.timeout, ClientTimeout: c.session.clientTimeout,
		Source: c.tree, Promises: c.link,
	}, answer.Frame(), plain)
}

// cancelWhenLeft cancels the handshake when the client leaves, until the returned function is called. Without it, a
// resume that was delayed on its way to the leader could move the session away from a newer connection of its client
// (Z2 connect). The reader gets bytes that arrive meanwhile: the Java client on Netty sends its watches at once.
func (c *conn) cancelWhenLeft(cancel func()) (done func()) {
	read := make(chan struct{})
	_ = c.net.SetReadDeadline(time.Time{})
	go func() {
		defer close(read)
		if err := c.frames.ReadAhead(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			cancel()
		}
	}()
	return func() {
		_ = c.net.SetReadDeadline(time.Unix(1, 0)) // the past
		<-read
	}
}

// handshake gets a session for a ConnectRequest.
type handshake struct {
	service    session.Service
	keepsLocal func(session.Node) bool
	link       session.Connection
	request    jute.ConnectRequest
	instance   uint64
	// closing is called before the handshake closes a session.
	closing func()
}

// grant opens a session, or moves one here. Without a leader, it tries again for a moment: a client that is sent away
// finds no leader at the next server either, and after the last server go-zookeeper and the Java client pause for a
// second, which is many times as long as an election after a leader's death. The repeat of an open is the same open (O2
// idempotent opens), and a resume first looks up the newest attachment. A new cluster has a leader a moment before it
// has the tree (W8 feature level), and a session that is opened in between has no writer (X5 the opener's instance):
// its first write would end the connection.
func (h *handshake) grant(ctx context.Context) (session.Grant, error) {
	try := h.resume
	if h.request.SessionID == 0 {
		o := h.openRequest()
		if o.Local && h.service.State().Index < h.seen() { // no leader can bring a local session's node up to date
			return session.Grant{}, session.ErrLagging
		}
		try = func(ctx context.Context) (session.Grant, error) { return h.link.Open(ctx, o) }
	}
	until := time.Now().Add(min(electionWait, h.requestedTimeout()/electionPart))
	for {
		grant, err := try(ctx)
		if err == nil || !isLeaderless(err) || !time.Now().Before(until) || pause(ctx, resumePause) != nil {
			return grant, err
		}
	}
}

// isLeaderless reports whether a request met no leader, or lost the leader that it was sent to.
func isLeaderless(err error) bool {
	return errors.Is(err, session.ErrNoLeader) || errors.Is(err, session.ErrOutcomeUnknown)
}

// waitForReads waits until the node knows that it may answer reads. Just after an election a node applies the leader's
// entries, and so can grant a session, a moment before it learns of a good round. Without the wait, the client's first
// read would end the connection (G6 stale nodes refuse). A node that becomes read-only instead serves no global session
// (Z9 read-only): the client must try another server.
func (h *handshake) waitForReads(ctx context.Context, t session.Token) error {
	mode := h.service.State().Mode
	for ; mode == session.ModeNoLeader; mode = h.service.State().Mode {
		if err := pause(ctx, modePause); err != nil {
			return err
		}
	}
	if mode == session.ModeReadOnly && !t.Local {
		return session.ErrReadOnly
	}
	return nil
}

// openRequest asks for a session of 7P/6 for a client that asks for P, in whole milliseconds, so that the node can tell
// the client P (Z4 timeout).
func (h *handshake) openRequest() session.OpenRequest {
	rounded := (h.requestedTimeout()*7/6 + time.Millisecond - 1).Truncate(time.Millisecond)
	o := session.OpenRequest{
		Spec: session.Spec{Timeout: max(rounded, time.Millisecond)}, MS: session.MS(time.Now()), Instance: h.instance,
		Local: h.request.ReadOnly && h.service.State().Mode == session.ModeReadOnly,
	}
	_, _ = rand.Read(o.RequestID[:])
	return o
}

func (h *handshake) requestedTimeout() time.Duration {
	return time.Duration(max(h.request.Timeout, 0)) * time.Millisecond
}

// seen returns the index that the client has seen.
func (h *handshake) seen() uint64 {
	return tree.Stamp(max(h.request.LastZxidSeen, 0)).Index() //nolint:gosec // not negative
}

// resume moves a session here. The client has no attachment to show, so the move names the newest attachment that this
// node knows. The move is repeated with a newer attachment as long as the client is connected (Z2 connect). In the same
// way it waits until another client gives the session up, or has held it for half of its timeout (M7).
func (h *handshake) resume(ctx context.Context) (session.Grant, error) {
	t := session.Token{ID: session.ID(h.request.SessionID)} //nolint:gosec // the bits of an id
	password := h.request.Password
	if copy(t.Credential[:], password) != len(t.Credential) || len(password) != len(t.Credential) {
		return session.Grant{}, session.ErrBadCredential
	}
	seen, wait := h.seen(), resumePause
	for attempt := uint64(1); ; attempt++ {
		found, err := h.service.Find(ctx, t.ID, session.ReadOptions{Seen: seen})
		if err != nil {
			return session.Grant{}, h.maybeElsewhere(t.ID, err)
		}
		t.Attachment, t.Local = found.Session.Attachment, found.Session.Local
		grant, err := h.link.Resume(ctx, session.ResumeRequest{
			Token: t, Instance: h.instance, Attempt: attempt, Seen: seen,
		})
		if err == nil {
			return h.globalize(ctx, grant)
		}
		if !errors.Is(err, session.ErrMoved) && !errors.Is(err, session.ErrClosing) {
			return grant, err
		}
		if err := pause(ctx, wait); err != nil {
			return session.Grant{}, err
		}
		wait = min(2*wait, longestPause)
	}
}

// maybeElsewhere reports for a session that was not found whether it may be another node's local session. An ended
// global session has a certificate, for as long as the cluster keeps it.
func (h *handshake) maybeElsewhere(id session.ID, err error) error {
	expired := (*session.ExpiredError)(nil)
	if !errors.As(err, &expired) || expired.Certificate != nil || h.keepsLocal == nil || !h.keepsLocal(id.Node()) {
		return err
	}
	return &session.ExpiredError{ID: id, LocalTo: id.Node()}
}

// globalize makes a local session global, unless the node is read-only: the answer to a local session says that the
// server is read-only, and only a read-only server may say so (H-60). Otherwise a client that searches for a read-write
// server would find this server for ever. Where sessions may not be upgraded, the session is closed, as ZooKeeper
// closes it.
func (h *handshake) globalize(ctx context.Context, grant session.Grant) (session.Grant, error) {
	if !grant.Token.Local || h.service.State().Mode == session.ModeReadOnly {
		return grant, nil
	}
	upgraded, err := h.link.Upgrade(ctx, grant.Token)
	if wrong := (*session.FieldError)(nil); errors.As(err, &wrong) {
		h.closing() // the handshake's answer informs the client
		return session.Grant{}, cmp.Or(h.link.Close(ctx, grant.Token), session.ErrExpired)
	}
	return upgraded, err
}

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

// isGone reports whether the client gets the answer that its session is gone: the result of [session.Service.Find]
// after a good round (Z3 expired). A wrong password gets the same answer. An id that may be another node's local
// session gets no answer.
func isGone(err error) bool {
	if expired := (*session.ExpiredError)(nil); errors.As(err, &expired) {
		return expired.LocalTo == 0
	}
	return errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrBadCredential)
}

// timeoutForClient returns the timeout in the answer to the client, from T: 6T/7, in whole milliseconds (Z4 timeout).
func timeoutForClient(timeout time.Duration) time.Duration {
	return (timeout * 6 / 7).Truncate(time.Millisecond)
}

func randomBits() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return max(binary.BigEndian.Uint64(b[:]), 1)
}
