package entry

import (
	"fmt"

	"holdfast/fsm/codec"
	pb "holdfast/proto/fields"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

func checkClose(c session.CloseSessions) error {
	switch {
	case c.Cause != session.CauseClosed && c.Cause != session.CauseExpired && c.Cause != session.CauseKilled:
		return codec.OutOfRange("cause", codec.Causes)
	case c.Credited < 0:
		return codec.OutOfRange("credited", "not negative")
	case len(c.Sessions) == 0 || len(c.Sessions) > session.MaxCloseBatch:
		return codec.OutOfRange("sessions", fmt.Sprintf("1 to %d", session.MaxCloseBatch))
	}
	for _, s := range c.Sessions {
		if s.ID == 0 {
			return codec.OutOfRange("session_id", "not zero")
		}
	}
	return codec.CheckOperator(c.By, c.Why)
}

func closeProto(c session.CloseSessions) *logv1.CloseSessions {
	m := &logv1.CloseSessions{
		Term: c.Term, Cause: logv1.Cause(c.Cause), CreditedMs: codec.CreditedMS(c.Credited), Ms: c.MS,
		Sessions: make([]*logv1.Closing, len(c.Sessions)), By: c.By, Why: c.Why,
	}
	for i, s := range c.Sessions {
		m.Sessions[i] = &logv1.Closing{
			Id: uint64(s.ID), Attachment: s.Attachment, LastTouchAgeMsPlus_1: codec.AgeMS(s.LastTouchAge),
			LateMs: codec.SpanMS(s.Late), CreditMs: codec.SpanMS(s.Credit), SilentMs: codec.SpanMS(s.Silent),
		}
	}
	return m
}

func closeFrom(m *logv1.CloseSessions) (session.Command, error) {
	if err := codec.NoUnknownFields(m); err != nil {
		return nil, err
	}
	cause, err := codec.CauseFrom(m.GetCause())
	if err != nil {
		return nil, err
	}
	c := session.CloseSessions{
		Term: m.GetTerm(), Cause: cause, Credited: codec.CreditedOf(m.GetCreditedMs()), MS: m.GetMs(),
		Sessions: make([]session.Closing, len(m.GetSessions())), By: m.GetBy(), Why: m.GetWhy(),
	}
	for i, s := range m.GetSessions() {
		if err := codec.NoUnknownFields(s); err != nil {
			return nil, fmt.Errorf("session %d: %w", i, err)
		}
		c.Sessions[i] = session.Closing{
			ID: session.ID(s.GetId()), Attachment: s.GetAttachment(),
			LastTouchAge: codec.AgeOf(s.GetLastTouchAgeMsPlus_1()),
			Late:         codec.DurationOf(s.GetLateMs()), Credit: codec.DurationOf(s.GetCreditMs()),
			Silent: codec.DurationOf(s.GetSilentMs()),
		}
	}
	return c, nil
}

func quickEncodeClose(c session.CloseSessions) []byte {
	b, whole := pb.Begin(make([]byte, 0, 48+24*len(c.Sessions)), commandsField)
	b, at := pb.Begin(b, closeField)
	b = pb.Varint(b, 1, c.Term)
	b = pb.Varint(b, 2, uint64(c.Cause))
	for i := range c.Sessions {
		b = quickEncodeClosing(b, &c.Sessions[i])
	}
	b = pb.Varint(b, 4, codec.CreditedMS(c.Credited))
	b = pb.Varint(b, 5, c.MS)
	b = pb.Bytes(b, 6, []byte(c.By))
	b = pb.Bytes(b, 7, []byte(c.Why))
	return pb.End(pb.End(b, at), whole)
}

// quickEncodeClosing appends one session of a close.
func quickEncodeClosing(b []byte, s *session.Closing) []byte {
	b, at := pb.Begin(b, 3)
	b = pb.Fixed64(b, 1, uint64(s.ID))
	b = pb.Varint(b, 2, s.Attachment)
	b = pb.Varint(b, 3, uint64(codec.AgeMS(s.LastTouchAge)))
	b = pb.Varint(b, 4, uint64(codec.SpanMS(s.Late)))
	b = pb.Varint(b, 5, uint64(codec.SpanMS(s.Credit)))
	return pb.End(pb.Varint(b, 6, uint64(codec.SpanMS(s.Silent))), at)
}

func quickDecodeClose(r *pb.Reader) (session.CloseSessions, bool) {
	c := session.CloseSessions{Term: r.Varint(1)}
	cause := r.Varint(2)
	c.Cause = session.Cause(cause)
	sessions := *r
	count := 0
	for _, ok := sessions.Bytes(3); ok; _, ok = sessions.Bytes(3) {
		count++
	}
	c.Sessions = make([]session.Closing, 0, count)
	for m, ok := r.Message(3); ok; m, ok = r.Message(3) {
		s := session.Closing{ID: session.ID(m.Fixed64(1)), Attachment: m.Varint(2), LastTouchAge: codec.AgeOf(m.Uint32(3))}
		s.Late, s.Credit, s.Silent = codec.DurationOf(m.Uint32(4)), codec.DurationOf(m.Uint32(5)), codec.DurationOf(m.Uint32(6))
		if !m.End() {
			return c, false
		}
		c.Sessions = append(c.Sessions, s)
	}
	c.Credited, c.MS = codec.CreditedOf(r.Varint(4)), r.Varint(5)
	by, _ := r.Bytes(6)
	why, _ := r.Bytes(7)
	c.By, c.Why = string(by), string(why)
	return c, r.End() && cause == uint64(c.Cause)
}
