package client

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/dial"
	"holdfast/transport/wire"
)

const (
	// requestWindow bounds the opens, resumes and closes of one connection that wait for answers: half of what a node
	// takes.
	requestWindow = 512
	// touchWindow bounds its touches that wait for answers. When that many are out, the node does not answer, and more
	// would not help.
	touchWindow = 64
	// patience is how long a node that owes an answer may say nothing before another one is tried.
	patience = 6 * time.Second
)

// conn is one Connect stream. The first group of fields is shared with its goroutines, the rest is the loop's.
type conn struct {
	route.Target
	cancel context.CancelFunc
	// out has room for all that waits for an answer, so that the loop never waits for a slow node.
	out chan *holdfastv1.ClientMessage

	up       bool // the stream is open
	dialled  time.Time
	deadline time.Time // of a connection that is tried: to be up, then to have served something
	seq      uint64
	heard    time.Time // when the last message came, or when requests last began to wait for one
	inflight map[uint64]*request
	touches  int // those among inflight
	queue    []*request
	again    waiting // refused for now; each joins the queue when it is due
	// pausedUntil is when those are due of which the node did not say when to send them again.
	pausedUntil time.Time
	pauses      int // in a row

	// what the node said of itself last; zero before, and Mode also of a node that never says
	state    session.NodeState
	jeopardy bool
	stray    bool // serves sessions the client does not hold: a touch names those it means
	touchAt  time.Time
	touched  time.Time     // when the last touch was sent
	smallest time.Duration // timeout of the sessions served here
	failing  error         // why the client wants to leave it; nil when it does not
	probing  bool          // of a connection that is tried: one request shows whether others follow
	probe    *request      // that one
}

// arrival is what a connection's goroutine tells the loop: the stream is up, a message, or the end.
type arrival struct {
	c   *conn
	msg *holdfastv1.ServerMessage
	err error
}

// dial starts a connection to t; what becomes of it arrives.
func (l *loop) dial(ctx context.Context, t route.Target) *conn {
	ctx, cancel := context.WithCancel(ctx)
	c := &conn{Target: t, cancel: cancel, inflight: make(map[uint64]*request)}
	l.connect(ctx, c)
	return c
}

// stream has goroutines of their own serve c.
func (l *loop) stream(ctx context.Context, c *conn) {
	c.out = make(chan *holdfastv1.ClientMessage, requestWindow+touchWindow)
	l.conns.Go(func() {
		defer c.cancel()
		err := l.serve(ctx, c)
		l.tell(ctx, arrival{c: c, err: err})
	})
}

// tell hands a to the loop, unless the connection has been dropped.
func (l *loop) tell(ctx context.Context, a arrival) {
	select {
	case l.arrivals <- a:
	case <-ctx.Done():
	}
}

// serve runs the stream until it ends; the error is never nil.
func (l *loop) serve(ctx context.Context, c *conn) error {
	cc, err := dial.Client(c.Address, dial.Options{Dial: l.cfg.Dial, Principal: l.cfg.Principal})
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }() // the stream has ended: there is nothing left to lose
	stream, err := holdfastv1.NewSessionServiceClient(cc).Connect(ctx)
	if err != nil {
		return reason(err)
	}
	l.tell(ctx, arrival{c: c})
	l.conns.Go(func() { send(ctx, stream, c.out) })
	for {
		msg, err := stream.Recv()
		if err != nil {
			return reason(err)
		}
		l.tell(ctx, arrival{c: c, msg: msg})
	}
}

// reason returns why a stream ended.
func reason(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("node ended the connection")
	}
	if domain := wire.Domain(err); domain != err { //nolint:errorlint // asks whether Domain found something to say
		return domain
	}
	return errors.New(status.Convert(err).Message())
}

// send writes what the loop queued. A stream that takes no more has ended, which the receiver tells.
func send(ctx context.Context, stream grpc.BidiStreamingClient[holdfastv1.ClientMessage, holdfastv1.ServerMessage],
	out <-chan *holdfastv1.ClientMessage,
) {
	for {
		select {
		case msg := <-out:
			if stream.Send(msg) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// stallsAt returns when the connection has owed an answer for too long; zero when it owes none.
func (c *conn) stallsAt() time.Time {
	if len(c.inflight) == 0 || c.failing != nil {
		return time.Time{}
	}
	return c.heard.Add(patience)
}
