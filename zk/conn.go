package zk

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"holdfast/session"
	"holdfast/transport/census"
	"holdfast/transport/gate"
	"holdfast/transport/secure"
	"holdfast/tree"
)

// Reasons for which a connection ends.
var (
	errStopping  = errors.New("the node is stopping")
	errClosed    = errors.New("the client has closed its session")
	errMoved     = errors.New("the session was resumed through another connection")
	errGone      = errors.New("the session has ended")
	errLost      = errors.New("events of its watches are lost")
	errUnproven  = errors.New("no touch of the session was confirmed in time")
	errReadOnly  = errors.New("the node has become read-only")
	errReadWrite = errors.New("the node is no longer read-only")
	errRefused   = errors.New("refused")
	errSlow      = errors.New("its client takes no answers, or the node takes no requests")
	errNoConnect = errors.New("no session was asked for")
)

// conn is one connection of a client.
type conn struct {
	server *Server
	net    net.Conn
	caller visitor
	link   session.Connection
	tree   session.TreeConnection
	// What follows is set by the handshake and does not change: the session, the timeout that it has (T) and the one
	// that the client was told (P), both of Z4.
	token           session.Token
	instance        uint64
	timeout, period time.Duration
	began           time.Time

	line line
	out  out

	mu         sync.Mutex
	principals []tree.Principal // guarded by mu
	why        error            // the first reason to end. guarded by mu
	// shown is the session once there is one, for events and four-letter words. guarded by mu
	shown struct {
		id      session.ID
		timeout time.Duration
		local   bool
	}
}

// visitor is who the client is, for budgets and for roles.
type visitor struct {
	gate.Caller
	// access is nil where nobody is asked for roles. Set by the handshake.
	access Caller
	// listed is the connection's entry in the census, nil without a session. Set before the reader begins.
	listed *census.Entry
}

// admit asks whether the client may have a session. Budgets are then those of its verified name.
func (v *visitor) admit(by Access, n net.Conn) error {
	if by == nil {
		return nil
	}
	var err error
	if v.access, err = by.Connect(secure.PeerCertificate(n), n.RemoteAddr()); err != nil {
		return err
	}
	if name := v.access.Name(); name != "" {
		v.Principal, v.Verified = name, true
	}
	return nil
}

// verified returns the client's verified name, empty for none.
func (v *visitor) verified() string {
	if v.Verified {
		return v.Principal
	}
	return ""
}

// still returns an error when the client may go on no more.
func (v *visitor) still() error {
	if v.access == nil {
		return nil
	}
	return v.access.Still()
}

func newConn(s *Server, n net.Conn) *conn {
	c := &conn{server: s, net: n, began: time.Now()}
	c.caller.Address = gate.AddressOf(n.RemoteAddr())
	c.line.conn, c.line.reads.of, c.out.conn = c, c, c
	p := &c.line.reads.parked
	p.come, p.silent = func() { wake(c) }, func() { c.finish(os.ErrDeadlineExceeded) }
	return c
}

// run does the handshake, and starts the reader. That is a goroutine of its own: while it waits it has a quarter of the
// stack that the handshake needs, and it waits nearly all the time (Z10).
func (c *conn) run() {
	c.server.stats.connections.Add(1)
	request, err := c.first()
	if err == nil {
		err = c.connect(request)
	}
	if err == nil {
		c.line.reads.parked.on = watchedOf(secure.Bare(c.net))
		err = rest(c)
	}
	if err != nil {
		c.finish(err)
		return
	}
	c.caller.listed = c.server.cfg.Census.Join(census.ZooKeeper, c.net.RemoteAddr(), presence{c})
	go c.read()
}

// finish is called once, when the connection ends, and returns when nothing of it is left. The session lives on.
func (c *conn) finish(err error) {
	defer c.server.serving.Done()
	defer c.server.forget(c)
	defer c.server.stats.connections.Add(-1)
	c.line.reads.giveBack()
	c.end(err)
	c.out.wait()
	if c.caller.listed != nil {
		c.caller.listed.Leave()
	}
	if c.tree != nil {
		c.tree.Close()
	}
	if c.link != nil {
		c.link.Disconnect()
	}
	c.mu.Lock()
	why := c.why
	c.mu.Unlock()
	if isForeign(why) {
		c.server.foreign.ended(c.net.RemoteAddr(), why)
	}
	if c.server.cfg.Logger != nil {
		c.server.cfg.Logger.Debug("a ZooKeeper client's connection has ended", "address", c.net.RemoteAddr().String(),
			"session", c.token.ID.String(), "why", why)
	}
}

// end ends the connection at once: what was not sent is dropped. The session lives on.
func (c *conn) end(why error) {
	c.mu.Lock()
	first := c.why == nil
	if first {
		c.why = why
	}
	c.mu.Unlock()
	c.out.stop()
	c.line.stop()
	_ = c.net.Close()
	if c.server.lot.unpark(&c.line.reads.parked) {
		go c.finish(why)
	}
}

// endAfter ends the connection once everything that waits was sent.
func (c *conn) endAfter(why error) {
	c.mu.Lock()
	if c.why == nil {
		c.why = why
	}
	c.mu.Unlock()
	c.line.stop()
	c.out.finish()
}

// leave is endAfter, of a connection whose session has left it.
func (c *conn) leave(why error) {
	c.out.fate.left.Store(true)
	c.endAfter(why)
}

// Gone ends the connection: its session has ended. What may still be sent to the client is sent before (Z6).
func (c *conn) Gone(session.Certificate) {
	if !c.out.fate.closing.Load() {
		c.leave(errGone)
	}
}

// Moved ends the connection, unless it was this connection's own resume.
func (c *conn) Moved(_ session.ID, _, instance uint64) {
	if instance != c.instance {
		c.leave(errMoved)
	}
}

// MovedLocally is Moved for a local session.
func (c *conn) MovedLocally(id session.ID, attachment, instance uint64) {
	c.Moved(id, attachment, instance)
}

// Jeopardy is no news for such a client: it hears nothing while the promise is short (Z5). A read-only node closes the
// connections of global sessions (Z9).
func (c *conn) Jeopardy(time.Time, []string) {
	c.mu.Lock()
	global := c.shown.id != 0 && !c.shown.local
	c.mu.Unlock()
	if global && c.server.service.State().Mode == session.ModeReadOnly {
		c.endAfter(errReadOnly)
	}
}

// JeopardyEnded ends the connection of a local session: its node was read-only, and no longer is (Z9). Its client
// connects again as to a read-write server.
func (c *conn) JeopardyEnded() {
	c.mu.Lock()
	local := c.shown.id != 0 && c.shown.local
	c.mu.Unlock()
	if local {
		c.endAfter(errReadWrite)
	}
}

// Draining ends the connection of a session: a client of ZooKeeper then connects to another server by itself. A node that
// is drained takes the session no more (Q1); one with a full disk serves a client that comes back (O5).
func (c *conn) Draining(why *session.DrainingError) {
	c.mu.Lock()
	has := c.shown.id != 0
	c.mu.Unlock()
	if has {
		c.endAfter(why)
	}
}

// DrainingEnded is no news.
func (c *conn) DrainingEnded() {}

// Dismissed ends the connection.
func (c *conn) Dismissed() { c.endAfter(session.ErrDraining) }

// who returns the principals of the client.
func (c *conn) who() []tree.Principal {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.principals
}
