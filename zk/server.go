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
	"holdfast/transport/ratelimit"
	"holdfast/tree"
	"holdfast/zk/frames"
	"holdfast/zk/idle"
	"holdfast/zk/writer"
)

// Config configures a server.
type Config struct {
	Logger hclog.Logger
	// Limiter has the node's budgets, shared with the client port.
	Limiter *ratelimit.Limiter
	// Census lists the connections that have a session.
	Census *census.Census
	// Access decides who may connect, and who gets answers to four-letter words; nil admits every client.
	Access Access
	// Super is the digest of super, empty for none.
	Super string
	// Audit wraps a connection's tree in an audit of what the client writes as super; nil audits nothing. name is the
	// client's verified name, empty for none, and principals are the client's first principals.
	Audit func(name string, from net.Addr, principals []tree.Principal, c session.TreeConnection) session.TreeConnection
	// Words are the four-letter words that the server answers (Z8 config and words).
	Words []string
	// NodeStats returns the figures of the node for the answers to four-letter words.
	NodeStats func() NodeStats
	// Members returns the text of /zookeeper/config.
	Members func() string
	// KeepsLocal reports whether another node is a member that may have local sessions unknown to this node; nil if no
	// member may.
	KeepsLocal func(session.Node) bool
}

// Access decides who may use the port. Safe for concurrent use.
type Access interface {
	// Connect admits a client that requests a session, by its verified certificate, nil without a certificate.
	Connect(certificate *x509.Certificate, from net.Addr) (Caller, error)
	// Word admits the sender of a four-letter word.
	Word(certificate *x509.Certificate, from net.Addr) error
}

// Caller is an admitted client.
type Caller interface {
	// Name is the verified name, empty for none.
	Name() string
	// Still returns an error when the client must not continue.
	Still() error
}

// Server serves ZooKeeper's clients. Safe for concurrent use.
type Server struct {
	cfg     Config
	service session.Service
	// ctx ends when the server stops, and ends the requests that wait for the cluster.
	ctx    context.Context //nolint:containedctx // the server's own lifetime
	cancel context.CancelFunc
	began  time.Time

	counters       counters
	protocolErrors protocolErrors
	// Shared by connections: the confirmer of their writers, the pool of idle connections, the budget of incomplete
	// frames.
	confirmer     *writer.Confirmer
	idle          idle.Pool
	partialFrames *frames.Budget

	mu sync.Mutex
	// conns are the open connections. guarded by mu
	conns    map[*conn]struct{}
	listener net.Listener // guarded by mu
	stopping bool         // guarded by mu
	serving  sync.WaitGroup
}

// New returns a server on a node's service.
func New(cfg Config, service session.Service) *Server {
	s := &Server{
		cfg: cfg, service: service, conns: map[*conn]struct{}{}, began: time.Now(), partialFrames: frames.NewBudget(),
		protocolErrors: protocolErrors{log: cfg.Logger},
	}
	//nolint:forbidigo // the server ends by Stop
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.confirmer = writer.NewConfirmer(s.ctx, service, &s.counters.writer)
	return s
}

// mode returns what the node serves now.
func (s *Server) mode() session.Mode { return s.service.State().Mode }

// Serve accepts connections until the listener is closed. It returns nil after Stop.
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

// acceptPause is how long the server waits when it is out of file descriptors.
const acceptPause = 50 * time.Millisecond

// isTemporary reports whether a listener may continue after an error; gRPC uses the same test.
func isTemporary(err error) bool {
	var temporary interface{ Temporary() bool }
	return errors.As(err, &temporary) && temporary.Temporary()
}

func (s *Server) stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// begin serves a connection in a new goroutine.
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

// all returns the open connections.
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
	all := s.all()
	for _, c := range all { // first: the calls that are canceled end connections too
		c.setReason(errStopping)
	}
	s.cancel()
	for _, c := range all {
		c.end(errStopping)
	}
	done := make(chan struct{})
	go func() {
		s.serving.Wait()
		s.idle.Close()
		close(done)
	}()
	select {
	case <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
