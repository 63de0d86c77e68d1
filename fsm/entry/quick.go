package entry

import (
	"google.golang.org/protobuf/proto"

	pb "holdfast/proto/fields"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// Opens without labels, moves and closes are most of the log. The quick functions encode and decode them without the
// generated messages, to the same bytes and the same commands. All other commands, and bytes in any other order than
// the quick encoders write, go through the generated messages, which report what is wrong.

// Numbers of the fields of the message Command.
const (
	openField  = 1
	moveField  = 2
	closeField = 3
)

// quickEncode returns the bytes that c takes in an entry, with their tag and length. It reports false when the
// generated messages must encode c. check has accepted c.
func quickEncode(c session.Command) ([]byte, bool) {
	switch c := c.(type) {
	case session.OpenSession:
		return quickEncodeOpen(c)
	case session.MoveSession:
		return quickEncodeMove(c), true
	case session.CloseSessions:
		return quickEncodeClose(c), true
	default:
		return nil, false
	}
}

// quickDecode decodes an entry's message. It reports false when the generated messages must decode the whole message,
// also to report what is wrong.
func quickDecode(message []byte) (Entry, bool) {
	r, count := pb.Read(message), 0
	for _, ok := r.Bytes(commandsField); ok; _, ok = r.Bytes(commandsField) {
		count++
	}
	clocks, err := clocksFrom(r.Varint(wallField), r.Varint(clockField))
	if err != nil || !r.End() {
		return Entry{}, false
	}
	commands := make([]session.Command, 0, count)
	r = pb.Read(message)
	for b, ok := r.Bytes(commandsField); ok; b, ok = r.Bytes(commandsField) {
		c, ok := quickDecodeCommand(b)
		if !ok {
			var m logv1.Command
			var err error
			if err = proto.Unmarshal(b, &m); err == nil {
				c, err = commandFrom(&m)
			}
			if err != nil {
				return Entry{}, false
			}
		}
		commands = append(commands, c)
	}
	return Entry{commands, clocks}, len(commands) > 0 || clocks != (Clocks{})
}

// quickDecodeCommand decodes one command, and checks it. It returns false when the generated messages must decode the
// command.
func quickDecodeCommand(b []byte) (session.Command, bool) {
	r := pb.Read(b)
	if m, ok := r.Message(openField); ok {
		c, read := quickDecodeOpen(&m)
		return c, read && r.End() && checkOpen(c) == nil
	}
	if m, ok := r.Message(moveField); ok {
		c, read := quickDecodeMove(&m)
		return c, read && r.End() && checkMove(c) == nil
	}
	if m, ok := r.Message(closeField); ok {
		c, read := quickDecodeClose(&m)
		return c, read && r.End() && checkClose(c) == nil
	}
	c, err := treeCommandFrom(b)
	return c, err == nil && c != nil
}
