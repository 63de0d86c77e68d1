package zk

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
	"holdfast/transport/census"
	"holdfast/transport/ratelimit"
	"holdfast/transport/secure"
	"holdfast/tree"
	"holdfast/zk/frames"
	"holdfast/zk/idle"
	"holdfast/zk/operations"
	"holdfast/zk/queue"
	"holdfast/zk/writer"
)

// Reasons for which a connection ends.
var (
	errStopping  = errors.New("the node is stopping")
	errMoved     = errors.New("the session was resumed through another connection")
	errGone      = errors.New("the session has ended")
	errReadOnly  = errors.New("the node has become read-only")
	errReadWrite = errors.New("the node is no longer read-only")
	errNoConnect = errors.New("no session was requested")
)

// conn is one connection of a client. It connects the packages below zk, and ends them in order.
type conn struct {
	server *Server
	net    net.Conn
	began  time.Time
	client identity

	// frames, parked and silence belong to the reader, or to the pool of idle connections while the connection is
	// parked.
	frames frames.Reader
	parked *idle.Conn
	// silence is when the client will have been silent for too long.
	silence time.Time

	queue   *queue.Queue
	writer  *writer.Writer
	session clientSession
	// handler and tree are made by the handshake, before the reader begins.
	handler *operations.Handler
	tree    session.TreeConnection
	link    session.Connection
	// listed is the connection's entry in the census, nil without a session.
	listed *census.Entry
	// received counts requests.
	received atomic.Int64

	mu     sync.Mutex
	reason error // the first reason to end. guarded by mu
}

// identity is who the client is, for budgets and for roles.
type identity struct {
	ratelimit.Caller
	// access is nil where authentication is off. Set by the handshake.
	access Caller
}

// admit checks whether the client may have a session. From then on the budgets of the client's verified name apply.
func (i *identity) admit(by Access, n net.Conn) error {
	if by == nil {
		return nil
	}
	var err error
	if i.access, err = by.Connect(secure.PeerCertificate(n), n.RemoteAddr()); err != nil {
		return err
	}
	if name := i.access.Name(); name != "" {
		i.Name, i.Verified = name, true
	}
	return nil
}

// verified returns the client's verified name, empty for none.
func (i *identity) verified() string {
	if i.Verified {
		return i.Name
	}
	return ""
}

// stillAdmitted returns an error when the client must not continue.
func (i *identity) stillAdmitted() error {
	if i.access == nil {
		return nil
	}
	return i.access.Still()
}

// principalsOf returns the principals that the node knows from a connection itself (P1 principals): the client's
// address, and the subject of its certificate.
func principalsOf(n net.Conn) ([]tree.Principal, error) {
	var all []tree.Principal
	if ip, ok := ratelimit.IPOf(n.RemoteAddr()); ok {
		all = append(all, tree.Principal{Scheme: tree.IP, ID: ip.String()})
	}
	if certificate := secure.PeerCertificate(n); certificate != nil {
		all = append(all, tree.Principal{Scheme: tree.X509, ID: secure.SubjectOf(certificate)})
	}
	return all, tree.CheckPrincipals(all)
}

func newConn(s *Server, n net.Conn) *conn {
	c := &conn{server: s, net: n, began: time.Now()}
	end := c.end
	c.client.Address = ratelimit.AddressOf(n.RemoteAddr())
	c.frames = frames.NewReader(n, s.partialFrames, end)
	c.parked = idle.NewConn(c.resumeReading, func() { c.finish(os.ErrDeadlineExceeded) })
	c.queue = queue.New(s.cfg.Limiter, end)
	c.writer = writer.New(n, c.queue, s.confirmer, end)
	c.session.ending, c.session.mode, c.session.client = c, s.mode, c.who
	return c
}

// run does the handshake, and starts the reader in a separate goroutine: while the reader waits, which is nearly all
// the time, its stack is a quarter of the handshake's (Z10 idle connections).
func (c *conn) run() {
	c.server.counters.connections.Add(1)
	request, err := c.readConnect()
	if err == nil {
		err = c.connect(request)
	}
	if err == nil {
		c.parked.Attach(secure.Bare(c.net))
		err = c.beginWait()
	}
	if err != nil {
		c.finish(err)
		return
	}
	c.listed = c.server.cfg.Census.Join(census.ZooKeeper, c.net.RemoteAddr(), censusEntry{c})
	go c.read()
}

// finish is called once, when the connection ends, and returns when all its parts have ended. The session lives on.
func (c *conn) finish(err error) {
	defer c.server.serving.Done()
	defer c.server.forget(c)
	defer c.server.counters.connections.Add(-1)
	c.frames.Release()
	c.end(err)
	c.writer.Wait()
	if c.listed != nil {
		c.listed.Leave()
	}
	if c.tree != nil {
		c.tree.Close()
	}
	if c.link != nil {
		c.link.Disconnect()
	}
	c.mu.Lock()
	reason := c.reason
	c.mu.Unlock()
	if isProtocolError(reason) {
		c.server.protocolErrors.add(c.net.RemoteAddr(), reason)
	}
	if c.server.cfg.Logger != nil {
		c.server.cfg.Logger.Debug("a ZooKeeper client's connection has ended", "address", c.net.RemoteAddr().String(),
			"session", c.session.token.ID.String(), "why", reason)
	}
}

// end ends the connection at once, and drops unsent bytes. The session lives on.
func (c *conn) end(why error) {
	c.setReason(why)
	c.writer.Stop()
	c.queue.Stop()
	_ = c.net.Close()
	if c.server.idle.Unpark(c.parked) {
		go c.finish(why)
	}
}

// endWhenSent ends the connection once everything that waits is sent.
func (c *conn) endWhenSent(why error) {
	c.setReason(why)
	c.queue.Stop()
	c.writer.Drain()
}

// endOfSession is endWhenSent, for a session that has ended or moved: bytes that must not be sent now are dropped.
func (c *conn) endOfSession(why error) {
	c.setReason(why)
	c.queue.Stop()
	c.writer.SessionLeft()
}

func (c *conn) setReason(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason == nil {
		c.reason = why
	}
}

// Pong answers a ping.
func (c *conn) Pong(xid int32) error { return c.writer.Pong(xid) }

// EndAfterReply ends the connection with the reply that is being made.
func (c *conn) EndAfterReply(why error) {
	c.setReason(why)
	c.writer.EndAfterReply()
}

// CloseSession closes the session, and answers the client's closeSession.
func (c *conn) CloseSession(xid int32) {
	c.session.closing.Store(true)
	go func() {
		if err := c.link.Close(c.server.ctx, c.session.token); err != nil && !errors.Is(err, session.ErrExpired) {
			c.end(fmt.Errorf("closing the session: %w", err))
			return
		}
		c.writer.SessionClosed(xid)
	}()
}

// who returns who the client is, for the node's log.
func (c *conn) who() session.Client {
	return session.Client{Address: c.net.RemoteAddr().String(), Name: c.client.Name, Verified: c.client.Verified}
}
