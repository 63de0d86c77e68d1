package zk

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/transport/census"
	"holdfast/transport/gate"
	"holdfast/tree"
)

// Config is what a front end is made of.
type Config struct {
	Logger hclog.Logger
	// Gate has the node's budgets, which it shares with the client port.
	Gate *gate.Gate
	// Census lists the connections that have a session.
	Census *census.Census
	// Access decides who may connect, and who is told a four-letter word; nil lets everybody.
	Access Access
	// Super is the digest of super, empty for nobody.
	Super string
	// Audit returns the tree's part of a connection with an audit of what its client writes as super; nil audits nothing.
	// name is the client's verified name, empty for none, and vouched are those whom the node vouches for so far.
	Audit func(name string, from net.Addr, vouched []tree.Principal, c session.TreeConnection) session.TreeConnection
	// Words are the four-letter words that are answered (Z8).
	Words []string
	// Standing returns what the words tell of the node.
	Standing func() Standing
	// Members returns the text of /zookeeper/config.
	Members func() string
	// KeepsLocal reports whether another node is a member that may have local sessions, of which this node knows nothing.
	// nil: none may.
	KeepsLocal func(session.Node) bool
}

// Access decides who may use the port. Safe for concurrent use.
type Access interface {
	// Connect admits a client that wants a session, by its verified certificate, nil without one.
	Connect(certificate *x509.Certificate, from net.Addr) (Caller, error)
	// Word admits somebody who asks for a four-letter word.
	Word(certificate *x509.Certificate, from net.Addr) error
}

// Caller is an admitted client.
type Caller interface {
	// Name is its verified name, empty for none.
	Name() string
	// Still returns an error when the client may go on no more.
	Still() error
}

// Server serves ZooKeeper's clients. Safe for concurrent use.
type Server struct {
	cfg     Config
	service session.Service
	confirm *confirmer
	stats   stats
	// ctx ends when the server stops: requests that wait for the cluster end with it.
	ctx     context.Context //nolint:containedctx // the server's own lifetime
	cancel  context.CancelFunc
	began   time.Time
	foreign foreign
	lot     lot
	parts   parts

	mu sync.Mutex
	// conns are the open connections. guarded by mu
	conns    map[*conn]struct{}
	listener net.Listener // guarded by mu
	stopping bool         // guarded by mu
	serving  sync.WaitGroup
}

// New returns a server on a node's service.
func New(cfg Config, service session.Service) *Server {
	s := &Server{cfg: cfg, service: service, conns: map[*conn]struct{}{}, began: time.Now()}
	s.foreign.log, s.parts.most = cfg.Logger, maxParts
	//nolint:forbidigo // the server ends by Stop
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.confirm = newConfirmer(s)
	return s
}

// Serve takes connections until the listener is closed. It returns nil after Stop.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	s.listener = l
	stopping := s.stopping
	s.mu.Unlock()
	if stopping {
		return l.Close()
	}
	for {
		n, err := l.Accept()
		switch {
		case err == nil:
			s.begin(n)
		case s.stopped():
			return nil
		case isTemporary(err):
			_ = pause(s.ctx, acceptPause)
		default:
			return err
		}
	}
}

// acceptPause is how long the server waits when it may have no more file descriptors.
const acceptPause = 50 * time.Millisecond

// isTemporary reports whether a listener may go on after an error, as gRPC decides it too.
func isTemporary(err error) bool {
	var one interface{ Temporary() bool }
	return errors.As(err, &one) && one.Temporary()
}

func (s *Server) stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// begin serves a connection in a goroutine of its own.
func (s *Server) begin(n net.Conn) {
	c := newConn(s, n)
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		_ = n.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.serving.Add(1)
	s.mu.Unlock()
	go c.run()
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// all returns the connections of now.
func (s *Server) all() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}

// Stop closes the port and all connections, whose sessions live on. It returns once all have ended, or when ctx ends.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	l := s.listener
	s.mu.Unlock()
	var err error
	if l != nil {
		err = l.Close()
	}
	s.cancel()
	for _, c := range s.all() {
		c.end(errStopping)
	}
	done := make(chan struct{})
	go func() {
		s.serving.Wait()
		s.lot.close()
		close(done)
	}()
	select {
	case <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
