package clientport

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/gate"
	"holdfast/transport/port"
	"holdfast/transport/wire"
)

// messageLimit names the messages that a client may send.
const messageLimit = "open, resume, touch, close or upgrade"

// seqFrom returns the seq of a message, and an error if it is not a valid one.
func seqFrom(m *holdfastv1.ClientMessage) (uint64, error) {
	var seq uint64
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Open:
		seq = m.Open.GetSeq()
	case *holdfastv1.ClientMessage_Resume:
		seq = m.Resume.GetSeq()
	case *holdfastv1.ClientMessage_Touch:
		seq = m.Touch.GetSeq()
	case *holdfastv1.ClientMessage_Close:
		seq = m.Close.GetSeq()
	case *holdfastv1.ClientMessage_Upgrade:
		seq = m.Upgrade.GetSeq()
	default:
		return 0, &session.FieldError{Field: "message", Limit: messageLimit}
	}
	return seq, wire.SeqOf(seq)
}

func (c *connection) touch(t *holdfastv1.Touch) error {
	ids, err := wire.TouchFrom(t)
	if err != nil {
		return err
	}
	// One message counts once, whether it names sessions or means all of them: only the message itself costs.
	if err := c.reservations.Admit(time.Now(), gate.Arrival{Kind: gate.Touches}); err != nil {
		return err
	}
	touched := c.conn.Touch(ids)
	answer := &holdfastv1.Touched{
		Seq: t.GetSeq(), SafeFor: wire.PromiseProto(touched.SafeFor), Failures: failuresProto(touched.Failures),
	}
	c.out.add(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: answer}})
	return nil
}

// failuresProto returns the failures of a touch for the wire, nil for none. Successive failures with the same error
// value share its detail, which would otherwise be most of the message. With more failures than a client can name in
// one request, as when many sessions end at once, certificates and holders are left out: the message Gone or Moved of
// each session has them.
func failuresProto(failures []session.TouchFailure) []*holdfastv1.TouchFailure {
	if len(failures) == 0 {
		return nil
	}
	many := len(failures) > session.MaxTouchBatch
	out := make([]*holdfastv1.TouchFailure, len(failures))
	var former error
	var detail *holdfastv1.ErrorDetail
	for i, f := range failures {
		err := f.Err
		switch {
		case many && errors.Is(err, session.ErrExpired):
			err = session.ErrExpired
		case many && errors.Is(err, session.ErrMoved):
			err = session.ErrMoved
		}
		if err != former { //nolint:errorlint // the same value, not the same sentinel: details may differ
			former, detail = err, wire.Detail(err)
		}
		out[i] = &holdfastv1.TouchFailure{Id: uint64(f.ID), Error: detail}
	}
	return out
}

func (c *connection) open(ctx context.Context, o *holdfastv1.Open) error {
	r, err := wire.OpenFrom(o, c.server.cfg.Clock())
	if err != nil {
		return err
	}
	if err = c.reservations.Admit(time.Now(), gate.Arrival{Kind: gate.Opens, Open: r.RequestID}); err != nil {
		return err
	}
	err = c.run(ctx, o.GetSeq(), request{open: true, bytes: proto.Size(o)},
		func(ctx context.Context) (*holdfastv1.ServerMessage, session.Token, error) {
			g, failed := c.conn.Open(ctx, r)
			if failed != nil {
				c.reservations.Unserved(time.Now(), gate.Opens, failed)
				return nil, session.Token{}, failed
			}
			return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Opened{Opened: &holdfastv1.Opened{
				Seq: o.GetSeq(), Session: wire.SessionProto(g.Session), Token: wire.TokenProto(g.Token),
				SafeFor: wire.PromiseProto(g.SafeFor),
			}}}, g.Token, nil
		})
	if err != nil {
		c.reservations.NotBegun(time.Now(), gate.Opens)
	}
	return err
}

func (c *connection) resume(ctx context.Context, p *holdfastv1.Resume) error {
	r, err := wire.ClientResumeFrom(p)
	if err != nil {
		return err
	}
	if err = c.reservations.Admit(time.Now(), gate.Arrival{Kind: gate.Resumes, Session: r.Token.ID}); err != nil {
		return err
	}
	err = c.run(ctx, p.GetSeq(), request{resume: r.Token.ID, bytes: proto.Size(p)},
		func(ctx context.Context) (*holdfastv1.ServerMessage, session.Token, error) {
			g, failed := c.conn.Resume(ctx, r)
			if failed != nil {
				c.reservations.Unserved(time.Now(), gate.Resumes, failed)
				return nil, session.Token{}, failed
			}
			return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Resumed{Resumed: &holdfastv1.Resumed{
				Seq: p.GetSeq(), Session: wire.SessionProto(g.Session), Token: wire.TokenProto(g.Token),
				SafeFor: wire.PromiseProto(g.SafeFor),
			}}}, g.Token, nil
		})
	if err != nil {
		c.reservations.NotBegun(time.Now(), gate.Resumes)
	}
	return err
}

func (c *connection) close(ctx context.Context, p *holdfastv1.Close) error {
	token, err := wire.TokenFrom(p.GetToken())
	if err != nil {
		return err
	}
	return c.run(ctx, p.GetSeq(), request{bytes: proto.Size(p)},
		func(ctx context.Context) (*holdfastv1.ServerMessage, session.Token, error) {
			if err := c.conn.Close(ctx, token); err != nil {
				return nil, session.Token{}, err
			}
			if c.streamState.forget(token.ID) {
				c.count(-1)
			}
			return &holdfastv1.ServerMessage{
				Message: &holdfastv1.ServerMessage_Closed{Closed: &holdfastv1.Closed{Seq: p.GetSeq()}},
			}, session.Token{}, nil
		})
}

// work serves a request. The token is that of the granted session, if there is one.
type work func(context.Context) (*holdfastv1.ServerMessage, session.Token, error)

// run serves a request in a goroutine of its own, which connect waits for. The error says why the goroutine was not
// started.
func (c *connection) run(ctx context.Context, seq uint64, q request, do work) error {
	q.bytes += port.RequestBytes
	if err := c.network.Reserve(q.bytes); err != nil {
		return err
	}
	q, err := c.streamState.begin(q)
	if err != nil {
		c.network.Add(-q.bytes)
		return err
	}
	go func() {
		defer c.streamState.done()
		defer c.network.Add(-q.bytes)
		answer, token, err := c.guarded(ctx, do)
		c.streamState.release()
		if err != nil {
			c.fail(seq, err)
		} else {
			c.out.add(answer)
		}
		waited, change := c.streamState.answered(q, token)
		c.count(change)
		for _, e := range waited {
			c.tell(e)
		}
	}()
	return nil
}

// guarded serves a request and turns its panic into an error.
func (c *connection) guarded(ctx context.Context,
	do work,
) (answer *holdfastv1.ServerMessage, token session.Token, err error) {
	defer c.server.port.Recovered(wire.ConnectMethod, &err)
	return do(ctx)
}
