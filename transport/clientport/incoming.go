package clientport

import (
	"encoding/binary"

	"holdfast/proto/fields"
	holdfastv1 "holdfast/proto/holdfast/v1"
)

// Numbers of the fields of a client's message for [incoming.Decode].
const (
	touchField = 3
	seqField   = 1
	idsField   = 2
)

// fewIDs is the largest number of ids for whose memory a stream keeps space.
const fewIDs = 64

// incoming is the message that a stream's reader receives. It is a [port.Decoder]: most messages of many clients are
// touches of a few named sessions, and incoming decodes these without the generated code, into memory that the next touch
// uses again.
type incoming struct {
	*holdfastv1.ClientMessage
	memory holdfastv1.ClientMessage
	oneof  holdfastv1.ClientMessage_Touch
	touch  holdfastv1.Touch
}

// Decode decodes a touch of a few named sessions. For all other bytes it makes the message empty and returns false: the
// generated code then decodes them, and reports what is wrong.
func (m *incoming) Decode(b []byte) bool {
	r := fields.Read(b)
	touch, ok := r.Message(touchField)
	seq := touch.Varint(seqField)
	ids, named := touch.Bytes(idsField)
	if !ok || !named || len(ids)%8 != 0 || len(ids) > 8*fewIDs || !touch.End() || !r.End() {
		m.ClientMessage = new(holdfastv1.ClientMessage)
		return false
	}
	m.touch.Seq, m.touch.Ids = seq, m.touch.Ids[:0]
	for ; len(ids) > 0; ids = ids[8:] {
		m.touch.Ids = append(m.touch.Ids, binary.LittleEndian.Uint64(ids))
	}
	m.oneof.Touch, m.memory.Message = &m.touch, &m.oneof
	m.ClientMessage = &m.memory
	return true
}
