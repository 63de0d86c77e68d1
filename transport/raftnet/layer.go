package raftnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"golang.org/x/time/rate"

	"holdfast/session"
)

const (
	// maxHandshakes is the default of Config.MaxHandshakes.
	maxHandshakes = 64
	// refusalLogInterval keeps a peer that retries all the time from filling the log.
	refusalLogInterval = 10 * time.Second
	// defaultTimeout is the default timeout of handshakes and of Raft's RPCs.
	defaultTimeout = 1500 * time.Millisecond
	// acceptRetry is the wait of the accept loop after an error, such as no free file descriptors.
	acceptRetry = 100 * time.Millisecond
)

// Config configures a [Layer]. The zero value of a field is its default, if there is one.
type Config struct {
	// ClusterID names the cluster. It has no space, and together with Settings at most 255 bytes. Peers of another
	// cluster are refused.
	ClusterID string
	// Settings must have the same values on every node of the cluster. Peers with another value are refused.
	Settings []Setting
	// Node is this node's number.
	Node session.Node
	// Member reports whether a node number belongs to another node of the cluster; nil: every number does. Greetings of
	// other nodes are refused, in both directions. Several goroutines call it, and it must not wait for Raft.
	Member func(session.Node) bool
	// Advertise is the address that Addr returns: the name by which the other nodes know this one. It is never a
	// resolved address, because addresses change when containers move. A voter distinguishes candidates by it: no other
	// server may ever have had it.
	Advertise string
	// Listener accepts the other nodes' connections. The layer closes it.
	Listener net.Listener
	// Dial makes a connection; nil is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Key is the key of this node's data directory.
	Key Key
	// Known returns the known position of a directory; nil knows none. OnPosition is called with another node's
	// knowledge of this node's directory, and whether this node dialled the other; an error refuses the connection. A nil
	// OnPosition accepts any. Several goroutines call both, and they must not wait for Raft.
	Known      func(Directory) Position
	OnPosition func(node session.Node, d Directory, dialled bool, known Position) error
	// Elsewhere returns the address at which to dial a node on a directory first, instead of the address in Raft's
	// configuration; "" for none. nil knows no such address. Several goroutines call it, and it must not wait for Raft.
	Elsewhere func(Directory) string
	// Waits keeps Raft's connections closed, in both directions, until Admit.
	Waits bool
	// Meet answers a node that wants to meet; nil answers with an empty frame. Several goroutines call it.
	Meet func(node session.Node, d Directory, request []byte) []byte
	// OnQuery answers the question of another node ([Layer.Ask]); nil answers with an empty frame. Several goroutines
	// call it.
	OnQuery func(node session.Node, d Directory, request []byte) []byte
	// Linked, if set, is called after [Layer.Links] of a node has changed, from several goroutines. It must not wait.
	Linked func()
	// MaxHandshakes is the largest number of accepted connections in their handshake; default 64.
	MaxHandshakes int
	// HandshakeTimeout bounds the handshake on either side, and is the timeout of Raft's requests at their dialler;
	// default 1.5 s.
	HandshakeTimeout time.Duration
	Logger           hclog.Logger
}

// Layer is a raft.StreamLayer. Safe for concurrent use.
type Layer struct {
	cfg Config
	// directory is the identity of Config.Key.
	directory Directory
	// ready passes connections that have completed their handshake to Accept.
	ready chan net.Conn
	// handshakes are the accepted connections that have not greeted, greeted those that have.
	handshakes handshakes
	greeted    nodeConns
	// start starts the accept loop, at the first Accept. loops are the accept loop and the handshakes.
	start sync.Once
	loops sync.WaitGroup

	refused, full rate.Sometimes

	mu sync.Mutex
	// open has all connections that Close and Suspend close. guarded by mu
	open map[io.Closer]struct{}
	// suspended refuses all connections, for good once left is set; waiting refuses Raft's connections. guarded by mu
	suspended, left, waiting bool
	// done is closed by Close, under mu.
	done chan struct{}
}

var _ raft.StreamLayer = (*Layer)(nil)

// New returns a layer. It starts no goroutine. The first Accept starts a goroutine that accepts connections until
// Close, and starts a goroutine for the handshake of each.
func New(cfg Config) *Layer {
	if cfg.Dial == nil {
		cfg.Dial = dialTCP
	}
	if cfg.HandshakeTimeout <= 0 {
		cfg.HandshakeTimeout = defaultTimeout
	}
	if cfg.MaxHandshakes <= 0 {
		cfg.MaxHandshakes = maxHandshakes
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Linked == nil {
		cfg.Linked = func() {}
	}
	return &Layer{
		cfg:        cfg,
		directory:  cfg.Key.Directory(),
		ready:      make(chan net.Conn),
		handshakes: handshakes{limit: cfg.MaxHandshakes},
		refused:    rate.Sometimes{Interval: refusalLogInterval},
		full:       rate.Sometimes{Interval: refusalLogInterval},
		open:       map[io.Closer]struct{}{},
		done:       make(chan struct{}),
		waiting:    cfg.Waits,
	}
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// address is an advertised name as a [net.Addr].
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// Addr returns the advertised address.
func (l *Layer) Addr() net.Addr { return address(l.cfg.Advertise) }

// Accept returns the next connection whose dialler has identified itself as a node of this cluster. After Close it
// returns net.ErrClosed.
func (l *Layer) Accept() (net.Conn, error) {
	l.start.Do(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.closed() {
			l.loops.Go(l.accept)
		}
	})
	select {
	case conn := <-l.ready:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// closed reports whether Close was called.
func (l *Layer) closed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Close closes the listener and every accepted or dialled connection, and waits for the layer's goroutines. Raft's own
// transport would leave accepted connections open.
func (l *Layer) Close() error {
	err := l.shut()
	l.loops.Wait()
	return err
}

func (l *Layer) shut() error {
	l.mu.Lock()
	if l.closed() {
		l.mu.Unlock()
		return nil
	}
	close(l.done)
	open := l.open
	l.open = nil
	l.mu.Unlock()
	err := l.cfg.Listener.Close()
	for c := range open {
		// The error of a connection that is no longer needed does not matter.
		_ = c.Close()
	}
	return err
}

// Suspend closes every connection, accepted or dialled, and refuses new ones in both directions until [Layer.Resume]:
// for the other nodes this node is cut off. Suspend does not involve Raft itself, so it works while Raft hangs.
func (l *Layer) Suspend() {
	l.mu.Lock()
	l.suspended = true
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // no longer needed
	}
}

// Resume reverts [Layer.Suspend], but not [Layer.Leave].
func (l *Layer) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.suspended = l.left
}

// Leave is Suspend for good. A goroutine that calls Resume after a stall may not know yet that the node has left.
func (l *Layer) Leave() {
	l.mu.Lock()
	l.left = true
	l.mu.Unlock()
	l.Suspend()
}

// errWaits says that Raft may not use the network yet.
var errWaits = errors.New("this node does not run Raft yet: it has just started, or waits for admission to the cluster")

// Admit lets Raft use the network.
func (l *Layer) Admit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = false
}

func (l *Layer) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// accept starts a goroutine for the handshake of each connection, until the listener is closed.
func (l *Layer) accept() {
	for {
		raw, err := l.cfg.Listener.Accept()
		switch {
		case err == nil:
		case l.closed():
			return
		case errors.Is(err, net.ErrClosed):
			l.cfg.Logger.Error("raft listener was closed by other code", "error", err)
			return
		default:
			l.cfg.Logger.Warn("accepting a raft connection", "error", err)
			l.pause()
			continue
		}
		h, out := l.handshakes.add(raw)
		if out != nil {
			l.full.Do(func() {
				l.cfg.Logger.Warn("raft connection dropped: too many handshakes", "limit", l.cfg.MaxHandshakes,
					"remote", out.conn.RemoteAddr().String())
			})
			l.drop(out.conn)
		}
		l.loops.Go(func() { l.greet(h) })
	}
}

// pause waits for acceptRetry, or for Close.
func (l *Layer) pause() {
	timer := time.NewTimer(acceptRetry)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.done:
	}
}

// greet does the handshake on an accepted connection and passes the connection to Accept.
func (l *Layer) greet(h *handshake) {
	defer l.handshakes.remove(h)
	conn, err := l.track(h.conn)
	if err != nil {
		return
	}
	theirs, err := l.shake(h.conn)
	if err == nil {
		theirs, err = l.answer(conn)
	}
	if err != nil {
		l.log(conn, err)
		l.drop(conn)
		return
	}
	l.handshakes.remove(h)
	s := newServed(conn, l.cfg.HandshakeTimeout)
	s.left = func() {
		if l.greeted.remove(theirs.node, s) {
			l.cfg.Linked()
		}
	}
	out := l.greeted.add(theirs.node, s)
	l.cfg.Linked()
	if out != nil {
		l.full.Do(func() {
			l.cfg.Logger.Warn("raft connection dropped: too many connections of one node", "limit", maxPerNode, "node",
				theirs.node,
				"remote", out.RemoteAddr().String())
		})
		l.drop(out)
	}
	select {
	case l.ready <- s:
	case <-l.done:
		l.drop(s)
	}
}

// log logs why a connection was not accepted. A refusal is a rate-limited warning. Other errors are logged at debug
// level, because anyone who reaches the port can cause them.
func (l *Layer) log(conn net.Conn, err error) {
	if errors.Is(err, errMet) {
		return
	}
	if !errors.Is(err, session.ErrWrongCluster) {
		l.cfg.Logger.Debug("raft connection closed before its handshake", "remote", conn.RemoteAddr().String(), "error",
			err)
		return
	}
	l.refused.Do(func() {
		l.cfg.Logger.Warn("raft peer refused", "remote", conn.RemoteAddr().String(), "error", err)
	})
}

// answer is the handshake of the dialled side. It returns the dialler's greeting.
func (l *Layer) answer(conn net.Conn) (greeting, error) {
	if err := conn.SetDeadline(time.Now().Add(l.cfg.HandshakeTimeout)); err != nil {
		return greeting{}, err
	}
	theirs, err := readGreeting(conn)
	if errors.Is(err, errHTTP) {
		answerHTTP(conn)
	}
	if err != nil {
		return greeting{}, err
	}
	answer := l.greeting(codeHello)
	refused := theirs.check(&l.cfg)
	if refused == nil {
		refused = l.identify(conn, theirs)
	}
	if refused == nil && theirs.code != codeMeet && l.waits() {
		refused = &refusal{codeWaits, fmt.Sprintf("node %d takes no part in Raft yet: it has just started, or waits for "+
			"admission to the cluster", l.cfg.Node)}
	}
	if r, ok := errors.AsType[*refusal](refused); ok {
		answer.code, answer.text = r.code, r.text
	}
	said := slices.Concat(theirs.bytes(), answer.bytes())
	out := answer.bytes()
	if refused == nil {
		out = append(out, l.report(theirs.directory, sideDialled, said)...)
	}
	if _, err = conn.Write(out); err != nil {
		return greeting{}, errors.Join(refused, fmt.Errorf("answering the greeting: %w", err))
	}
	if refused != nil {
		return greeting{}, refused
	}
	known, err := readReport(conn, theirs.directory, sideDialler, slices.Concat(said, out[len(answer.bytes()):][:positionBytes]))
	if err == nil {
		err = l.reportKnown(theirs, false, known)
	}
	if err != nil {
		return greeting{}, err
	}
	switch theirs.code {
	case codeMeet:
		return greeting{}, serveExchange(conn, theirs, l.cfg.Meet)
	case codeAsk:
		return greeting{}, serveExchange(conn, theirs, l.cfg.OnQuery)
	}
	return theirs, conn.SetDeadline(time.Time{})
}

// answerHTTP answers an HTTP client that this is the wrong port. It reads the rest of the request before the connection
// is closed, within the deadline of the handshake: a connection that is closed with unread bytes is reset, and the
// answer is lost.
func answerHTTP(conn net.Conn) {
	if _, err := io.WriteString(conn, wrongPort); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, conn, maxHTTP) // the request's content does not matter
	}
}

func (l *Layer) drop(conn net.Conn) {
	if err := conn.Close(); err != nil {
		l.cfg.Logger.Debug("closing a raft connection", "error", err)
	}
}
