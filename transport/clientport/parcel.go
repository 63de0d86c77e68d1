package clientport

import (
	"google.golang.org/protobuf/proto"

	"holdfast/session"
	"holdfast/transport/wire"
)

// parcel is a ServerMessage that encodes itself: one or several queued messages, with the node's state. It is a
// [port.Appender].
type parcel struct {
	state session.NodeState
	parts []outgoing
	// sizes are the encoded sizes of the parts, inner is the size of all parts in an Answers.
	sizes []int
	inner int
	// weight is the weight of the parts while they were queued.
	weight int
}

// keptSizes is the largest capacity of sizes that a parcel keeps.
const keptSizes = 64

// pack makes a parcel of messages.
func (p *parcel) pack(parts []outgoing) {
	if cap(p.sizes) > keptSizes {
		p.sizes = nil
	}
	p.parts, p.sizes, p.inner, p.weight = parts, p.sizes[:0], 0, 0
	for i := range parts {
		part := &parts[i]
		if e := part.ends; e != nil {
			part.written, part.ends = wire.AppendGone(nil, e.cause, e.ids, e.certificates), nil
		}
		size := len(part.written)
		if part.message != nil {
			size = proto.Size(part.message)
		}
		p.sizes = append(p.sizes, size)
		p.inner += wire.AnswerSize(size)
		p.weight += part.bytes
	}
}

// Size returns the number of bytes that Append appends.
func (p *parcel) Size() int {
	if len(p.parts) == 1 {
		return p.sizes[0] + wire.StateSize(p.state)
	}
	return wire.AnswersSize(p.inner) + p.inner + wire.StateSize(p.state)
}

// Append appends the message's bytes.
func (p *parcel) Append(b []byte) ([]byte, error) {
	joined := len(p.parts) > 1
	if joined {
		b = wire.AppendAnswers(b, p.inner)
	}
	for i, part := range p.parts {
		if joined {
			b = wire.AppendAnswer(b, p.sizes[i])
		}
		b = append(b, part.written...)
		if part.message == nil {
			continue
		}
		var err error
		if b, err = (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend(b, part.message); err != nil {
			return nil, err
		}
	}
	return wire.AppendState(b, p.state), nil
}
