package transport

import (
	"context"
	"errors"
	"io"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

const connectMethod = holdfastv1.SessionService_Connect_FullMethodName

// connectStream is the part of a Connect stream that is used here.
type connectStream interface {
	Context() context.Context
	Send(*holdfastv1.ServerMessage) error
	Recv() (*holdfastv1.ClientMessage, error)
}

// Connect serves the connection of one client process.
//
// Three goroutines: the handler, which waits for the first reason to end; a reader, which serves touches itself, in
// their order, because they are cheap, and starts a goroutine for each other request, at most MaxRequests; and a writer.
// Nothing waits for the client but the writer: what the client does not read is queued, at most MaxOutgoing messages, and
// one more ends the stream with RESOURCE_EXHAUSTED, "outgoing_messages". Its sessions live on.
func (s *sessionServer) Connect(stream holdfastv1.SessionService_ConnectServer) error {
	return s.connect(stream)
}

func (s *sessionServer) connect(stream connectStream) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	visitor, err := visitorOf(ctx)
	if err != nil {
		return err
	}
	c := &connection{
		server: s,
		places: s.gate.Places(visitor, s.cfg.MaxRequests),
		out:    newOutbox(s.cfg.MaxOutgoing, s.state),
		roster: newRoster(s.cfg.MaxSessions, s.cfg.MaxRequests),
	}
	conn, err := s.service.Connect(c)
	if err != nil {
		return err
	}
	c.conn = conn
	s.stats.streams.Add(1)
	err = c.serve(ctx, stream)
	cancel()
	c.out.drop() // the connection itself is kept, by the node, for as long as a session lives that was opened through it
	c.places.Leave()
	<-c.roster.drain() // requests end because their context has
	conn.Disconnect()
	s.stats.streams.Add(-1)
	s.stats.sessions.Add(-int64(c.roster.clear()))
	return err
}

// connection is one Connect stream. It is the session.Events of the connection behind it.
type connection struct {
	server *sessionServer
	places *Places
	conn   session.Connection
	out    *outbox
	roster *roster
}

// serve runs the stream's reader and writer and returns why the stream ends; nil when the client has said all it had to
// and has been answered.
func (c *connection) serve(ctx context.Context, stream connectStream) error {
	read, written := make(chan error, 1), make(chan error, 1)
	c.server.port.pumps.Go(func() { read <- c.read(ctx, stream) })
	c.server.port.pumps.Go(func() { written <- c.out.run(ctx, stream.Send) })
	var why error
	select {
	case why = <-read:
		if !errors.Is(why, io.EOF) {
			return why
		}
		why = nil
	case why = <-written:
		return why
	case <-c.out.overflow:
		return c.overflown()
	case <-c.server.port.stopping:
		why = session.ErrStopping
	}
	// The client or the node wants no more requests: those under way are answered first.
	for idle := c.roster.drain(); ; {
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
			return c.overflown()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *connection) overflown() error {
	c.server.stats.slowReaders.Add(1)
	return c.out.err()
}

// read serves the client's messages until the stream ends.
func (c *connection) read(ctx context.Context, stream connectStream) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		c.take(ctx, m)
	}
}

// take serves or starts one request.
func (c *connection) take(ctx context.Context, m *holdfastv1.ClientMessage) {
	seq, err := seqFrom(m)
	if err == nil {
		err = c.start(ctx, m)
	}
	if err != nil {
		c.fail(seq, err)
	}
}

// start begins a request. The error is that of a request which is answered at once.
func (c *connection) start(ctx context.Context, m *holdfastv1.ClientMessage) (err error) {
	defer c.server.port.recovered(connectMethod, &err)
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Touch:
		return c.touch(m.Touch)
	case *holdfastv1.ClientMessage_Open:
		return c.open(ctx, m.Open)
	case *holdfastv1.ClientMessage_Resume:
		return c.resume(ctx, m.Resume)
	case *holdfastv1.ClientMessage_Close:
		return c.close(ctx, m.Close)
	case *holdfastv1.ClientMessage_Upgrade:
		return c.upgrade(ctx, m.Upgrade)
	default:
		return &session.FieldError{Field: "message", Limit: messageLimit}
	}
}

// fail answers a request that was refused.
func (c *connection) fail(seq uint64, err error) {
	c.server.port.note(connectMethod, err)
	c.server.stats.failedOnConn.Add(1)
	c.out.add(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Failed{Failed: FailedProto(seq, err)}})
}

// Gone is told by the node; it does not block.
func (c *connection) Gone(certificate session.Certificate) {
	if e := (event{id: certificate.ID, certificate: &certificate}); c.roster.happened(e) {
		c.tell(e)
	}
}

// Moved is told by the node; it does not block.
func (c *connection) Moved(id session.ID, attachment uint64) {
	if e := (event{id: id, moved: standing(session.Token{Attachment: attachment})}); c.roster.happened(e) {
		c.tell(e)
	}
}

// MovedLocally is told by the node; it does not block.
func (c *connection) MovedLocally(id session.ID, attachment uint64) {
	if e := (event{id: id, moved: standing(session.Token{Attachment: attachment, Local: true})}); c.roster.happened(e) {
		c.tell(e)
	}
}

// Jeopardy is told by the node; it does not block.
func (c *connection) Jeopardy(since time.Time, try []string) { c.out.jeopardy(since, try) }

// JeopardyEnded is told by the node; it does not block.
func (c *connection) JeopardyEnded() { c.out.jeopardyEnded() }

// tell queues an event and takes its session off the roster.
func (c *connection) tell(e event) {
	if e.certificate != nil {
		c.out.gone(*e.certificate)
	} else {
		c.out.moved(e.id)
	}
	if c.roster.forget(e.id) {
		c.server.stats.sessions.Add(-1)
	}
}
