package entry

import (
	"fmt"

	"holdfast/fsm/codec"
	pb "holdfast/proto/fields"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

func checkMove(c session.MoveSession) error {
	switch {
	case c.ID == 0:
		return codec.OutOfRange("session_id", "not zero")
	case !c.NewOwner.Valid():
		return codec.OutOfRange("owner", "1 to 254")
	case c.Attempt == 0:
		return codec.OutOfRange("attempt", "1 or more")
	case c.Named == 0:
		return codec.OutOfRange("named", "not zero")
	}
	return nil
}

func checkMoves(c session.MoveSessions) error {
	switch {
	case !c.NewOwner.Valid():
		return codec.OutOfRange("owner", "1 to 254")
	case len(c.Sessions) == 0 || len(c.Sessions) > session.MaxBatch:
		return codec.OutOfRange("sessions", fmt.Sprintf("1 to %d", session.MaxBatch))
	}
	for _, s := range c.Sessions {
		switch {
		case s.ID == 0:
			return codec.OutOfRange("session_id", "not zero")
		case s.Attempt == 0:
			return codec.OutOfRange("attempt", "1 or more")
		case s.Named == 0:
			return codec.OutOfRange("named", "not zero")
		}
	}
	return nil
}

func moveProto(c session.MoveSession) *logv1.MoveSession {
	return &logv1.MoveSession{
		Id: uint64(c.ID), Owner: uint32(c.NewOwner), Instance: c.Instance, Attempt: c.Attempt,
		Named: c.Named, NamedLocal: c.NamedLocal,
	}
}

func movesProto(c session.MoveSessions) *logv1.MoveSessions {
	n := len(c.Sessions)
	columns := make([]uint64, 3*n)
	m := &logv1.MoveSessions{
		Owner: uint32(c.NewOwner), Instance: c.Instance,
		Ids: columns[:n:n], Attempts: columns[n : 2*n : 2*n], Named: columns[2*n:],
	}
	for i, s := range c.Sessions {
		m.Ids[i], m.Attempts[i], m.Named[i] = uint64(s.ID), s.Attempt, s.Named
	}
	return m
}

func moveFrom(m *logv1.MoveSession) (session.Command, error) {
	if err := codec.NoUnknownFields(m); err != nil {
		return nil, err
	}
	owner, err := codec.NodeFrom("owner", m.GetOwner())
	if err != nil {
		return nil, err
	}
	return session.MoveSession{
		ID: session.ID(m.GetId()), NewOwner: owner, Instance: m.GetInstance(), Attempt: m.GetAttempt(),
		Named: m.GetNamed(), NamedLocal: m.GetNamedLocal(),
	}, nil
}

func movesFrom(m *logv1.MoveSessions) (session.Command, error) {
	if err := codec.NoUnknownFields(m); err != nil {
		return nil, err
	}
	owner, err := codec.NodeFrom("owner", m.GetOwner())
	if err != nil {
		return nil, err
	}
	n := len(m.GetIds())
	switch {
	case len(m.GetAttempts()) != n:
		return nil, codec.OutOfRange("attempts", fmt.Sprintf("as many as ids, %d", n))
	case len(m.GetNamed()) != n:
		return nil, codec.OutOfRange("named", fmt.Sprintf("as many as ids, %d", n))
	}
	c := session.MoveSessions{NewOwner: owner, Instance: m.GetInstance(), Sessions: make([]session.Moving, n)}
	for i, id := range m.GetIds() {
		c.Sessions[i] = session.Moving{ID: session.ID(id), Attempt: m.GetAttempts()[i], Named: m.GetNamed()[i]}
	}
	return c, nil
}

func quickEncodeMove(c session.MoveSession) []byte {
	b, whole := pb.Begin(make([]byte, 0, 48), commandsField)
	b, at := pb.Begin(b, moveField)
	b = pb.Fixed64(b, 1, uint64(c.ID))
	b = pb.Varint(b, 2, uint64(c.NewOwner))
	b = pb.Fixed64(b, 3, c.Instance)
	b = pb.Varint(b, 4, c.Attempt)
	b = pb.Varint(b, 5, c.Named)
	if c.NamedLocal {
		b = pb.Varint(b, 6, 1)
	}
	return pb.End(pb.End(b, at), whole)
}

func quickDecodeMove(r *pb.Reader) (session.MoveSession, bool) {
	c := session.MoveSession{ID: session.ID(r.Fixed64(1))}
	owner := r.Varint(2)
	c.NewOwner = session.Node(owner)
	c.Instance, c.Attempt, c.Named, c.NamedLocal = r.Fixed64(3), r.Varint(4), r.Varint(5), r.Bool(6)
	return c, r.End() && owner == uint64(c.NewOwner)
}
