package clientport

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/authz"
	"holdfast/transport/port"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
)

// idleStreamWait is the time after which the node ends a stream that serves no session and receives no message, if its
// connection has another call. A client without sessions keeps one stream for its next session, and needs no second
// one.
const idleStreamWait = time.Minute

// connectStream is the part of a Connect stream that the handler uses.
type connectStream interface {
	Context() context.Context
	// SendMsg sends a [port.Appender].
	SendMsg(m any) error
	// RecvMsg receives an [incoming]. A message that is too large is returned together with the error.
	RecvMsg(m any) error
}

// Connect serves the connection of one client process.
//
// The stream has two goroutines, the handler, which waits for the first reason to end, and a reader; and a writer
// while there is something to send. The reader serves touches itself, in order, because they are cheap. It starts the
// other requests in order, at most StreamLimits.Requests at a time. The node calls back with each outcome, and the
// answer is queued. Only a request that waits for something outside the log has a goroutine. Only the writer waits for
// the client. Unread messages are queued, up to a number of messages, a number of bytes, and a time in which the
// client reads nothing. Beyond that the stream ends with RESOURCE_EXHAUSTED and the name of the limit:
// "outgoing_messages", "outgoing_bytes" or "outgoing_timeout". The stream also ends when too many bytes wait on its
// connection or its node. Its sessions stay alive.
func (s *sessionServer) Connect(stream holdfastv1.SessionService_ConnectServer) error {
	return s.connect(stream)
}

func (s *sessionServer) connect(stream connectStream) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	caller, err := ratelimit.CallerOf(ctx)
	if err != nil {
		return err
	}
	network := port.ConnOf(ctx)
	c := &connection{
		server:       s,
		client:       clientOf(ctx, caller),
		network:      network,
		reservations: s.limiter.Reservations(caller, s.cfg.Stream.Requests),
		requests:     authz.RequestsOf(ctx),
		out:          newOutbox(s.cfg.Stream.Outgoing, network.Account, s.cfg.ReadTimeout, s.service.State),
		drainNotices: drainNotices{timedOut: make(chan struct{})},
		streamState: newStreamState(s.cfg.Stream, func(busy bool) {
			if busy {
				network.SetBusy()
			} else {
				network.SetIdle()
			}
		}),
	}
	c.drainNotices.out = c.out
	w := &writer{c: c, out: c.out, ended: make(chan error, 1)}
	w.start = func() { s.port.Pump(func() { w.serve(ctx, stream.SendMsg) }) }
	c.out.wake = w.wake
	defer w.stop()
	conn, err := s.service.Connect(c)
	if err != nil {
		return err
	}
	c.conn = conn
	defer c.presence.join(ctx, c, caller).Leave()
	s.stats.streams.Add(1)
	err = c.serve(ctx, stream, w.ended)
	cancel()
	// The node keeps the connection, and thus the outbox, as long as a session exists that was opened through it.
	c.out.drop()
	c.reservations.Leave()
	c.streamState.drain()
	c.streamState.waits.Wait() // the requests end because their context has ended
	c.tree.close()
	conn.Disconnect()
	s.stats.streams.Add(-1)
	c.count(-c.streamState.clear())
	return err
}

// connection is one Connect stream. The node calls it as the connection's session.Events.
type connection struct {
	server       *sessionServer
	client       session.Client
	network      *port.Conn
	reservations *ratelimit.Reservations
	// requests authorizes the stream's requests. Only the stream's reader uses it.
	requests *authz.Requests
	conn     session.Connection
	drainNotices
	out         *outbox
	streamState *streamState
	// sessions is the number of sessions of the stream.
	sessions atomic.Int64
	// received counts the client's messages.
	received atomic.Uint64
	shortest shortest
	presence presence
	tree     treeSlot
	// large is the error for a message that is too large and that the reader is handling; nil otherwise. Only the
	// reader uses it.
	large error
	// promised is the promise on which the connection's sessions depend.
	promised noted
}

// Client returns the stream's client.
func (c *connection) Client() session.Client { return c.client }

// clientOf describes a caller.
func clientOf(ctx context.Context, caller ratelimit.Caller) session.Client {
	c := session.Client{Name: caller.Name, Verified: caller.Verified}
	if from, ok := peer.FromContext(ctx); ok {
		c.Address = from.Addr.String()
	}
	return c
}

// count adds to the number of sessions of the stream.
func (c *connection) count(change int) {
	c.server.stats.sessions.Add(int64(change))
	now := c.sessions.Add(int64(change))
	if change > 0 {
		c.out.allow(int(now))
	}
	if now <= 0 {
		c.shortest.timeout.Store(0)
	}
}

// serve runs the stream's reader, and returns why the stream ends. written gets the result of the writer. It returns
// nil when the client has closed its side and all its requests are answered.
func (c *connection) serve(ctx context.Context, stream connectStream, written <-chan error) error {
	read := make(chan error, 1)
	c.server.port.Pump(func() { read <- c.read(ctx, stream) })
	ended, why := c.until(read, written)
	if ended {
		return why
	}
	// The client or the node wants no more requests. Requests in flight are answered first.
	for idle := c.streamState.drain(); ; {
		select {
		case <-idle:
			c.out.close()
			idle = nil
		case err := <-written:
			if err == nil {
				err = why
			}
			return err
		case <-c.out.overflow:
			return c.overflown(c.out.err())
		case <-c.network.Condemned():
			return c.overflown(c.network.Err())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// until waits for the first reason to end, and reports whether the stream ends at once. Otherwise requests in flight
// are answered first.
func (c *connection) until(read, written <-chan error) (atOnce bool, why error) {
	first, idle := time.NewTimer(port.FirstMessageWait), time.NewTicker(idleStreamWait)
	defer first.Stop()
	defer idle.Stop()
	received := uint64(0)
	for {
		select {
		case why = <-read:
			if errors.Is(why, io.EOF) {
				return false, nil
			}
			return true, why
		case why = <-written:
			return true, why
		case <-c.out.overflow:
			return true, c.overflown(c.out.err())
		case <-c.network.Condemned():
			return true, c.overflown(c.network.Err())
		case <-c.server.port.Stopping():
			return false, session.ErrStopping
		case <-c.server.streamsEnd:
			return false, session.ErrStopping
		case <-c.timedOut:
			return false, session.ErrDraining
		case <-first.C:
			why = c.silent()
		case <-idle.C:
			why = c.idle(received)
			received = c.received.Load()
		}
		if why != nil {
			return true, why
		}
	}
}

// silent returns the reason to end the stream if no message has arrived yet.
func (c *connection) silent() error {
	if c.received.Load() > 0 {
		return nil
	}
	return &session.LimitError{Name: "first_message_timeout", Limit: port.FirstMessageWait.String() + " without a message"}
}

// idle returns the reason to end the stream if it serves nothing, has received no message since the count received, and
// is not the only call of its connection.
func (c *connection) idle(received uint64) error {
	if c.received.Load() > received || !c.streamState.idles() || !c.network.Shared() {
		return nil
	}
	return &session.LimitError{
		Name: "idle_stream_timeout", Limit: idleStreamWait.String() +
			" without a session or a message, and another call uses the connection",
	}
}

func (c *connection) overflown(why error) error {
	c.server.stats.slowReaders.Add(1)
	return why
}

// read serves the client's messages until the stream ends.
func (c *connection) read(ctx context.Context, stream connectStream) error {
	var m incoming
	for {
		m.ClientMessage = nil // a quiet stream keeps nothing
		err := stream.RecvMsg(&m)
		if c.large = largeWrite(m.ClientMessage, err); err != nil && c.large == nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		c.received.Add(1)
		if err := c.receive(ctx, m.ClientMessage); err != nil {
			return err
		}
	}
}

// receive serves the requests of a message, in order. Each request of a batch is served as if it had arrived alone. A
// malformed batch has no seq, and is refused as a whole. The error ends the stream.
func (c *connection) receive(ctx context.Context, m *holdfastv1.ClientMessage) error {
	batch := m.GetBatch()
	if batch == nil {
		if err := c.awaitTree(ctx, m, m, nil); err != nil {
			return err
		}
		c.serveOne(ctx, m)
		return nil
	}
	requests := batch.GetRequests()
	if err := wire.BatchOf(len(requests)); err != nil {
		c.fail(0, err)
		return nil
	}
	for _, one := range requests {
		if nested := one.GetBatch(); nested != nil {
			nested.Reset() // the request is refused whatever it contains, so nothing in it may wait
		}
	}
	if !c.awaitOutbox(ctx, m) {
		return nil
	}
	return c.serveEach(ctx, m, requests)
}

// serveEach serves the requests of a batch. It skips nil requests, which awaitTree has served ahead of their turn.
func (c *connection) serveEach(ctx context.Context, batch *holdfastv1.ClientMessage,
	requests []*holdfastv1.ClientMessage,
) error {
	for i, one := range requests {
		if err := ctx.Err(); err != nil {
			return err
		}
		if one == nil {
			continue
		}
		if one.GetBatch() != nil {
			c.fail(0, &session.FieldError{Field: "batch.requests", Limit: "must hold no batch"})
			continue
		}
		if err := c.awaitTree(ctx, batch, one, requests[i+1:]); err != nil {
			return err
		}
		c.serveOne(ctx, one)
	}
	return nil
}

// awaitOutbox waits until the answers to a batch fit into the outbox, and reports whether the outbox is open. The
// answers must fit in addition to the pending ones, because one log entry may answer all requests in flight. A batch
// causes many answers at once, and a client that reads as fast as it can must not lose its stream (B1 client batches).
// A client that does not read loses the stream when its timeout ends. While the batch waits, its bytes count on the
// connection.
func (c *connection) awaitOutbox(ctx context.Context, batch *holdfastv1.ClientMessage) bool {
	counted := 0
	defer func() { c.network.Add(-counted) }()
	for {
		// Pending answers are counted first: an answer that is queued in between counts twice, and never zero times.
		unanswered := c.streamState.unanswered()
		shorter, open := c.out.fits(unanswered + len(batch.GetBatch().GetRequests()))
		if shorter == nil {
			return open
		}
		if counted == 0 {
			counted = bytesOf(batch)
			c.network.Add(counted)
		}
		select {
		case <-shorter:
		case <-ctx.Done():
			return false
		}
	}
}

// serveOne serves one request, or starts it.
func (c *connection) serveOne(ctx context.Context, m *holdfastv1.ClientMessage) {
	seq, err := seqFrom(m)
	if err == nil {
		err = c.start(ctx, m)
	}
	if err != nil {
		c.fail(seq, err)
	}
}

// start begins a request. Its error is the answer to the request.
func (c *connection) start(ctx context.Context, m *holdfastv1.ClientMessage) (err error) {
	defer c.server.port.Recovered(wire.ConnectMethod, &err)
	if one := m.GetTouch(); one != nil {
		return c.touch(ctx, one) // a touch depends on the permissions of the stream's other requests
	}
	if err := c.requests.Admit(single(m)); err != nil {
		return err
	}
	ctx = session.WithTrace(ctx, session.TraceFrom(m.GetTrace()))
	switch one := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Open:
		return c.open(ctx, one.Open)
	case *holdfastv1.ClientMessage_Resume:
		return c.resume(ctx, one.Resume)
	case *holdfastv1.ClientMessage_Close:
		return c.close(ctx, one.Close)
	case *holdfastv1.ClientMessage_Upgrade:
		return c.upgrade(ctx, one.Upgrade)
	case *holdfastv1.ClientMessage_ResumeSessions:
		return c.resumes(ctx, one.ResumeSessions)
	default:
		return c.startTree(ctx, m)
	}
}

// fail answers a request with its error.
func (c *connection) fail(seq uint64, err error) {
	c.server.port.Note(wire.ConnectMethod, err)
	c.server.stats.failed.Add(1)
	c.out.add(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Failed{Failed: wire.FailedProto(seq, err)}})
}

// Gone notifies the client that a session has ended. The node calls it; it does not block.
func (c *connection) Gone(certificate session.Certificate) {
	if e := (event{id: certificate.ID, certificate: &certificate}); c.streamState.happened(e) {
		c.deliver(e)
	}
}

// Moved notifies the client that another connection has a session now. The node calls it; it does not block.
func (c *connection) Moved(id session.ID, attachment, instance uint64) {
	if e := (event{
		id: id, moved: attachmentRank(session.Token{Attachment: attachment}), instance: instance,
	}); c.streamState.happened(e) {
		c.deliver(e)
	}
}

// MovedLocally is Moved for a local session. The node calls it; it does not block.
func (c *connection) MovedLocally(id session.ID, attachment, instance uint64) {
	if e := (event{
		id: id, moved: attachmentRank(session.Token{Attachment: attachment, Local: true}), instance: instance,
	}); c.streamState.happened(e) {
		c.deliver(e)
	}
}

// Jeopardy notifies the client that its sessions may expire. The node calls it; it does not block.
func (c *connection) Jeopardy(since time.Time, try []string) { c.out.jeopardy(since, try) }

// JeopardyEnded revokes Jeopardy. The node calls it; it does not block.
func (c *connection) JeopardyEnded() { c.out.jeopardyEnded() }

// deliver removes the session of an event from the stream's state before it queues the event, so that a client that has
// received the event no longer finds the session on this stream.
func (c *connection) deliver(e event) {
	if c.streamState.forget(e.id) {
		c.count(-1)
	}
	if e.certificate != nil {
		c.out.addExpiry(*e.certificate)
	} else {
		c.out.moved(e.id, e.instance)
	}
}
