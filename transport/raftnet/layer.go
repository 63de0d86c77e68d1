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
	// refusalLogInterval keeps a peer that tries again and again from filling the log.
	refusalLogInterval = 10 * time.Second
	// defaultTimeout is that of handshakes, and of Raft's RPCs.
	defaultTimeout = 1500 * time.Millisecond
	// acceptRetry is how long accepting waits after an error, such as no file descriptors left.
	acceptRetry = 100 * time.Millisecond
)

// Config configures a [Layer]. The zero value of a field is its default, if it has one.
type Config struct {
	// ClusterID is without a space, and with Settings at most 255 bytes. Peers of another cluster are refused.
	ClusterID string
	// Settings are those that every node of the cluster has to have the same value of. Peers with another are refused.
	Settings []Setting
	// Node is this node's number.
	Node session.Node
	// Member reports whether a node number is that of another node of the cluster; nil: all are. Greetings of others
	// are refused, whoever dials. It is called from several goroutines, and must not wait for Raft.
	Member func(session.Node) bool
	// Advertise is what Addr returns: the name by which the other nodes know this one, never what it resolves to,
	// because addresses change when containers move. A voter tells candidates apart by it: no other server may ever
	// have had it.
	Advertise string
	// Listener takes the connections of the others. The layer closes it.
	Listener net.Listener
	// Dial makes a connection; nil is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Directory is the identity of this node's data directory.
	Directory Directory
	// Elsewhere returns where a node on a directory is to be dialled rather than at the address that Raft has of it, ""
	// for nowhere else; nil knows of no such node. It is called from several goroutines, and must not wait for Raft.
	Elsewhere func(Directory) string
	// Waits makes the layer wait: nobody speaks to Raft, nor Raft to anybody, until Admit.
	Waits bool
	// Meet answers a node that wants to meet; nil answers nothing. It is called from several goroutines.
	Meet func(node session.Node, d Directory, request []byte) []byte
	// MaxHandshakes is how many accepted connections may be in their handshake, or wait for Accept; default 64.
	MaxHandshakes int
	// HandshakeTimeout bounds the handshake on either side, and is the timeout of Raft's requests at their dialler;
	// default 1.5 s.
	HandshakeTimeout time.Duration
	Logger           hclog.Logger
}

// Layer is a raft.StreamLayer. Safe for concurrent use.
type Layer struct {
	cfg Config
	// ready are connections that have shaken hands.
	ready chan net.Conn
	// lobby holds those that have not yet, seats those that have.
	lobby lobby
	seats seats
	// start starts the accept loop, with the first Accept. loops are it and the handshakes.
	start sync.Once
	loops sync.WaitGroup

	refused, full rate.Sometimes

	mu sync.Mutex
	// open is all that Close and Suspend close. guarded by mu
	open map[io.Closer]struct{}
	// suspended refuses connections, for good once left; waiting refuses those of Raft. guarded by mu
	suspended, left, waiting bool
	// done is closed by Close, under mu.
	done chan struct{}
}

var _ raft.StreamLayer = (*Layer)(nil)

// New returns a layer. It starts nothing: the first Accept starts a goroutine that accepts connections and gives each a
// goroutine for its handshake, until Close.
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
	return &Layer{
		cfg:     cfg,
		ready:   make(chan net.Conn),
		lobby:   lobby{most: cfg.MaxHandshakes},
		refused: rate.Sometimes{Interval: refusalLogInterval},
		full:    rate.Sometimes{Interval: refusalLogInterval},
		open:    map[io.Closer]struct{}{},
		done:    make(chan struct{}),
		waiting: cfg.Waits,
	}
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// address is an advertised name as a net.Addr.
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// Addr returns the advertised address.
func (l *Layer) Addr() net.Addr { return address(l.cfg.Advertise) }

// Accept returns the next connection whose dialler has proved to be a node of this cluster. After Close it returns
// net.ErrClosed.
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

// Close closes the listener and every connection that was accepted or dialled, and waits for the layer's goroutines.
// Raft's own transport would leave accepted connections open.
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
		// Why a connection that nobody needs any more does not close well is of no use to anyone.
		_ = c.Close()
	}
	return err
}

// Suspend closes every connection that was accepted or dialled, and refuses new ones on either side until
// [Layer.Resume]: to the other nodes this one is cut off. Raft itself is told nothing, so this works while it hangs.
func (l *Layer) Suspend() {
	l.mu.Lock()
	l.suspended = true
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // nobody needs it any more
	}
}

// Resume ends what [Layer.Suspend] began, but not what [Layer.Leave] did.
func (l *Layer) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.suspended = l.left
}

// Leave is Suspend for good: whoever is about to resume because a stall is over may not know yet that the node has
// left.
func (l *Layer) Leave() {
	l.mu.Lock()
	l.left = true
	l.mu.Unlock()
	l.Suspend()
}

// errWaits says that this node takes no part yet.
var errWaits = errors.New("this node takes no part yet")

// Admit ends the waiting.
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

// accept gives each connection a goroutine for its handshake, until the listener is closed.
func (l *Layer) accept() {
	for {
		raw, err := l.cfg.Listener.Accept()
		switch {
		case err == nil:
		case l.closed():
			return
		case errors.Is(err, net.ErrClosed):
			l.cfg.Logger.Error("raft listener was closed by someone else", "error", err)
			return
		default:
			l.cfg.Logger.Warn("accepting a raft connection", "error", err)
			l.pause()
			continue
		}
		g, out := l.lobby.enter(raw)
		if out != nil {
			l.full.Do(func() {
				l.cfg.Logger.Warn("raft connection dropped: too many in their handshake", "limit", l.cfg.MaxHandshakes,
					"remote", out.conn.RemoteAddr().String())
			})
			l.drop(out.conn)
		}
		l.loops.Go(func() { l.greet(g) })
	}
}

// pause waits a little, or for Close.
func (l *Layer) pause() {
	timer := time.NewTimer(acceptRetry)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.done:
	}
}

// greet shakes hands on an accepted connection and offers it to Accept.
func (l *Layer) greet(g *guest) {
	defer l.lobby.leave(g)
	conn, err := l.track(g.conn)
	if err != nil {
		return
	}
	theirs, err := l.answer(conn)
	if err != nil {
		l.log(conn, err)
		l.drop(conn)
		return
	}
	l.lobby.leave(g)
	s := newServed(conn, l.cfg.HandshakeTimeout)
	s.silent = theirs.version == silentVersion
	s.left = func() { l.seats.leave(theirs.node, s) }
	if out := l.seats.take(theirs.node, s); out != nil {
		l.full.Do(func() {
			l.cfg.Logger.Warn("raft connection dropped: too many of one node", "limit", maxSeats, "node", theirs.node,
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

// log says why a connection was not accepted: a refusal at a rate a person can read, the rest, which anyone can cause
// who reaches the port, at debug.
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

// answer is the handshake of the side that was dialled, in the version of the side that dials. It returns what that
// said.
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
	if speaks(theirs.version) {
		answer.version = theirs.version
	}
	refused := theirs.check(&l.cfg)
	if refused == nil && theirs.code == codeHello && l.waits() {
		refused = &refusal{codeWaits, fmt.Sprintf("node %d takes no part yet", l.cfg.Node)}
	}
	if r, ok := errors.AsType[*refusal](refused); ok {
		answer.code, answer.text = r.code, r.text
	}
	if err := answer.write(conn); err != nil {
		return greeting{}, errors.Join(refused, fmt.Errorf("answering the greeting: %w", err))
	}
	if refused != nil {
		return greeting{}, refused
	}
	if theirs.code == codeMeet {
		return greeting{}, l.meet(conn, theirs)
	}
	return theirs, conn.SetDeadline(time.Time{})
}

// answerHTTP tells somebody who speaks HTTP that this is another port. The rest of the request is read before the
// connection is closed, within the deadline of the handshake: closed with bytes unread it would be reset, and the
// answer lost.
func answerHTTP(conn net.Conn) {
	if _, err := io.WriteString(conn, wrongPort); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, conn, maxHTTP) // what a stranger asked for is of no interest
	}
}

func (l *Layer) drop(conn net.Conn) {
	if err := conn.Close(); err != nil {
		l.cfg.Logger.Debug("closing a raft connection", "error", err)
	}
}
