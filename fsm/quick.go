package fsm

import (
	"google.golang.org/protobuf/proto"

	pb "holdfast/proto/fields"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// Opens without labels, moves and closes are most of the log. The functions here write and read their bytes without the
// generated messages: the same bytes, and the same commands. Everything else, and everything that is not exactly in the
// form that they write, goes through the generated messages, which say what is wrong with it.

// Numbers of the fields of Command.
const (
	openField  = 1
	moveField  = 2
	closeField = 3
)

// quickEncode returns the bytes of c, which check has passed, in an entry with their tag and length; false if another
// way must be used.
func quickEncode(c session.Command) ([]byte, bool) {
	switch c := c.(type) {
	case session.OpenSession:
		if len(c.Labels) > 0 {
			return nil, false
		}
		b, whole := pb.Begin(make([]byte, 0, 57), commandsField)
		b, at := pb.Begin(b, openField)
		b = pb.Varint(b, 1, uint64(c.Node))
		b = pb.Varint(b, 2, c.MS)
		b = pb.Varint(b, 3, uint64(c.Timeout.Milliseconds()))
		b = pb.Bytes(b, 5, c.RequestID[:])
		b = pb.Fixed64(b, 6, c.Instance)
		return pb.End(pb.End(b, at), whole), true
	case session.MoveSession:
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
		return pb.End(pb.End(b, at), whole), true
	case session.CloseSessions:
		b, whole := pb.Begin(make([]byte, 0, 48+24*len(c.Sessions)), commandsField)
		b, at := pb.Begin(b, closeField)
		b = pb.Varint(b, 1, c.Term)
		b = pb.Varint(b, 2, uint64(c.Cause))
		for i := range c.Sessions {
			b = quickClosing(b, &c.Sessions[i])
		}
		b = pb.Varint(b, 4, packCredited(c.Credited))
		b = pb.Varint(b, 5, c.MS)
		b = pb.Bytes(b, 6, []byte(c.By))
		b = pb.Bytes(b, 7, []byte(c.Why))
		return pb.End(pb.End(b, at), whole), true
	default:
		return nil, false
	}
}

// quickClosing appends a session that a close names.
func quickClosing(b []byte, s *session.Closing) []byte {
	b, at := pb.Begin(b, 3)
	b = pb.Fixed64(b, 1, uint64(s.ID))
	b = pb.Varint(b, 2, s.Attachment)
	b = pb.Varint(b, 3, uint64(packAge(s.LastTouchAge)))
	b = pb.Varint(b, 4, uint64(packSpan(s.Late)))
	b = pb.Varint(b, 5, uint64(packSpan(s.Credit)))
	return pb.End(pb.Varint(b, 6, uint64(packSpan(s.Silent))), at)
}

// quickDecode returns what an entry's message says; false if the message must be read as a whole, which also says what
// is wrong with it.
func quickDecode(message []byte) (entry, bool) {
	r, count := pb.Read(message), 0
	for _, ok := r.Bytes(commandsField); ok; _, ok = r.Bytes(commandsField) {
		count++
	}
	clocks, err := clocksFrom(r.Varint(wallField), r.Varint(clockField))
	if err != nil || !r.End() {
		return entry{}, false
	}
	commands := make([]session.Command, 0, count)
	r = pb.Read(message)
	for b, ok := r.Bytes(commandsField); ok; b, ok = r.Bytes(commandsField) {
		c, ok := quickCommand(b)
		if !ok {
			var m logv1.Command
			var err error
			if err = proto.Unmarshal(b, &m); err == nil {
				c, err = commandFrom(&m)
			}
			if err != nil {
				return entry{}, false
			}
		}
		commands = append(commands, c)
	}
	return entry{commands, clocks}, len(commands) > 0 || clocks != (Clocks{})
}

// quickCommand returns a command that is in range.
func quickCommand(b []byte) (session.Command, bool) {
	r := pb.Read(b)
	if m, ok := r.Message(openField); ok {
		c, read := quickOpen(&m)
		return c, read && r.End() && checkOpen(c) == nil
	}
	if m, ok := r.Message(moveField); ok {
		c, read := quickMove(&m)
		return c, read && r.End() && checkMove(c) == nil
	}
	if m, ok := r.Message(closeField); ok {
		c, read := quickClose(&m)
		return c, read && r.End() && checkClose(c) == nil
	}
	c, err := treeCommandFrom(b)
	return c, err == nil && c != nil
}

func quickOpen(r *pb.Reader) (session.OpenSession, bool) {
	node := r.Varint(1)
	c := session.OpenSession{Node: session.Node(node), MS: r.Varint(2), Timeout: unpackTimeout(r.Uint32(3))}
	id, _ := r.Bytes(5)
	copy(c.RequestID[:], id)
	c.Instance = r.Fixed64(6)
	return c, r.End() && node == uint64(c.Node) && len(id) == len(c.RequestID)
}

func quickMove(r *pb.Reader) (session.MoveSession, bool) {
	c := session.MoveSession{ID: session.ID(r.Fixed64(1))}
	owner := r.Varint(2)
	c.NewOwner = session.Node(owner)
	c.Instance, c.Attempt, c.Named, c.NamedLocal = r.Fixed64(3), r.Varint(4), r.Varint(5), r.Bool(6)
	return c, r.End() && owner == uint64(c.NewOwner)
}

func quickClose(r *pb.Reader) (session.CloseSessions, bool) {
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
		s := session.Closing{ID: session.ID(m.Fixed64(1)), Attachment: m.Varint(2), LastTouchAge: unpackAge(m.Uint32(3))}
		s.Late, s.Credit, s.Silent = unpackTimeout(m.Uint32(4)), unpackTimeout(m.Uint32(5)), unpackTimeout(m.Uint32(6))
		if !m.End() {
			return c, false
		}
		c.Sessions = append(c.Sessions, s)
	}
	c.Credited, c.MS = unpackCredited(r.Varint(4)), r.Varint(5)
	by, _ := r.Bytes(6)
	why, _ := r.Bytes(7)
	c.By, c.Why = string(by), string(why)
	return c, r.End() && cause == uint64(c.Cause)
}
