package wire

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"holdfast/proto/fields"
	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
)

// Batches of requests and replies between nodes are [peerv1.Requests] and [peerv1.Replies] in protocol buffers. Most
// messages between nodes are opens, resumes, closes and their replies, so the functions here write and read the bytes
// of these without the generated messages. Every other request or reply, and one that is not exactly in the form that
// they write, goes through the generated messages. Requests and Replies with any field besides their elements are
// refused.

// batchBytes is the size at which a batch gets no further elements.
const batchBytes = 256 << 10

// traceField is the number of Request.trace, after all bodies.
const traceField = 25

// element is the number of the only field of Requests and Replies.
const element = 1

// SendLearner sends m, which is not a hello, to a leader: in one message, or in several if one would be too large or
// exceed the leader's limits.
func SendLearner(m session.LearnerMessage, send func(*peerv1.LearnerMessage) error) error {
	if len(m.Requests) == 0 {
		p, err := LearnerProto(m)
		if err != nil {
			return err
		}
		return send(p)
	}
	return pack(m.Requests, appendRequest, func(packed []byte) error {
		return send(&peerv1.LearnerMessage{Message: &peerv1.LearnerMessage_Requests{Requests: packed}})
	})
}

// SendLeader sends m to a learner: in one message, or in several if one would be too large or exceed the learner's
// limits.
func SendLeader(m session.LeaderMessage, send func(*peerv1.LeaderMessage) error) error {
	if len(m.Replies) == 0 {
		p, err := LeaderProto(m)
		if err != nil {
			return err
		}
		return send(p)
	}
	return pack(m.Replies, appendReply, func(packed []byte) error {
		return send(&peerv1.LeaderMessage{Message: &peerv1.LeaderMessage_Replies{Replies: packed}})
	})
}

// pack appends all elements to as few batches as the bounds permit, and sends each.
func pack[E any](all []E, add func([]byte, *E) ([]byte, error), send func([]byte) error) error {
	for len(all) > 0 {
		// The stream may keep the bytes, so each batch gets new ones. Most elements are smaller.
		packed := make([]byte, 0, min(len(all), session.MaxPeerBatch)*64)
		n := 0
		for n < len(all) && n < session.MaxPeerBatch && len(packed) < batchBytes {
			var err error
			if packed, err = add(packed, &all[n]); err != nil {
				return err
			}
			n++
		}
		if err := send(packed); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// unpack reads the elements of a batch. next reads one; left is the number of remaining elements including this one.
func unpack[E any](field string, packed []byte, next func(b []byte, to *E, left int) error) ([]E, error) {
	count := 0
	for b := packed; len(b) > 0; count++ {
		_, n := bytesOf(b, element)
		if n < 0 {
			return nil, &session.FieldError{Field: field, Limit: "a serialized batch"}
		}
		b = b[n:]
	}
	if count == 0 || count > session.MaxPeerBatch {
		return nil, &session.FieldError{Field: field, Limit: fmt.Sprintf("1 to %d", session.MaxPeerBatch)}
	}
	all := make([]E, count)
	for i := range all {
		one, n := bytesOf(packed, element)
		packed = packed[n:]
		if err := next(one, &all[i], count-i); err != nil {
			return nil, Within(field, err)
		}
	}
	return all, nil
}

// bytesOf reads the field with a number at the beginning of b, which must be bytes or a message. n is the length of the
// whole field; negative if there is another field or none.
func bytesOf(b []byte, number protowire.Number) (content []byte, n int) {
	at, kind, tag := protowire.ConsumeTag(b)
	if tag < 0 || at != number || kind != protowire.BytesType {
		return nil, -1
	}
	content, rest := protowire.ConsumeBytes(b[tag:])
	if rest < 0 {
		return nil, -1
	}
	return content, tag + rest
}

// appendSpan appends a Duration, or a Timestamp, of seconds and nanoseconds.
func appendSpan(b []byte, number protowire.Number, seconds int64, nanos int32) []byte {
	b, at := fields.Begin(b, number)
	b = fields.Varint(b, 1, uint64(seconds))
	b = fields.Varint(b, 2, uint64(int64(nanos)))
	return fields.End(b, at)
}

func appendDuration(b []byte, number protowire.Number, d time.Duration) []byte {
	return appendSpan(b, number, int64(d/time.Second), int32(d%time.Second))
}

func appendToken(b []byte, number protowire.Number, t *session.Token) []byte {
	b, at := fields.Begin(b, number)
	b = fields.Fixed64(b, 1, uint64(t.ID))
	b = fields.Bytes(b, 2, t.Credential[:])
	b = fields.Varint(b, 3, t.Attachment)
	b = fields.Varint(b, 4, protowire.EncodeBool(t.Local))
	return fields.End(b, at)
}

// appendRequest appends a request as an element of Requests.
func appendRequest(b []byte, r *session.Request) ([]byte, error) {
	b, whole := fields.Begin(b, element)
	switch {
	case r.Open != nil && r.Open.OnlyTimeout():
		b = fields.Varint(b, 1, r.Seq)
		var at int
		b, at = fields.Begin(b, 3)
		b = fields.Bytes(b, 1, r.Open.RequestID[:])
		b = appendDuration(b, 2, r.Open.Timeout)
		b = fields.Varint(b, 4, min(r.Open.MS, math.MaxInt64))
		b = fields.End(fields.Fixed64(b, 5, r.Open.Instance), at)
	case r.Resume != nil:
		b = fields.Varint(b, 1, r.Seq)
		var at int
		b, at = fields.Begin(b, 4)
		b = appendToken(b, 1, &r.Resume.Token)
		b = fields.Fixed64(b, 2, r.Resume.Instance)
		b = fields.End(fields.Varint(b, 3, r.Resume.Attempt), at)
	case r.Close != nil:
		b = fields.Varint(b, 1, r.Seq)
		var at int
		b, at = fields.Begin(b, 5)
		b = fields.End(appendToken(b, 1, r.Close), at)
	default:
		p, err := requestProto(r)
		if err != nil {
			return nil, err
		}
		if b, err = (proto.MarshalOptions{}).MarshalAppend(b, p); err != nil {
			return nil, fmt.Errorf("encoding a request: %w", err)
		}
	}
	if r.Trace != nil {
		b = protowire.AppendVarint(protowire.AppendTag(b, traceField, protowire.BytesType), session.TraceBytes)
		b = r.Trace.Append(b)
	}
	return fields.End(b, whole), nil
}

// appendReply appends a reply as an element of Replies.
func appendReply(b []byte, r *session.Reply) ([]byte, error) {
	b, whole := fields.Begin(b, element)
	if r.Err != nil || len(r.Remaining) > 0 || len(r.Moved) > 0 || r.Vigil != nil || !r.Session.OnlyTimeout() {
		var err error
		if b, err = (proto.MarshalOptions{}).MarshalAppend(b, ReplyProto(r)); err != nil {
			return nil, fmt.Errorf("encoding a reply: %w", err)
		}
		return fields.End(b, whole), nil
	}
	b = fields.Varint(b, 1, r.Seq)
	b = fields.Varint(b, 2, r.Term)
	b = fields.Varint(b, 3, r.Index)
	if s := &r.Session; s.ID != 0 {
		var at int
		b, at = fields.Begin(b, 4)
		b = fields.Fixed64(b, 1, uint64(s.ID))
		b = appendDuration(b, 2, s.Timeout)
		b = fields.Varint(b, 3, uint64(s.Owner))
		b = fields.Varint(b, 4, s.Attachment)
		b = fields.Varint(b, 6, protowire.EncodeBool(s.Local))
		b = fields.Varint(b, 7, s.OpenedIndex)
		if !s.OpenedAt.IsZero() {
			b = appendSpan(b, 8, s.OpenedAt.Unix(), int32(s.OpenedAt.Nanosecond()))
		}
		b = fields.End(b, at)
	}
	b = fields.Varint(b, 8, protowire.EncodeBool(r.Repeated))
	b = fields.Fixed64(b, 12, uint64(r.First))
	return fields.End(b, whole), nil
}
