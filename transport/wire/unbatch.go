package wire

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"holdfast/proto/fields"
	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
)

// span reads a Duration or a Timestamp, which must not be negative or far away.
func span(r *fields.Reader, number protowire.Number) (seconds, nanos int64, ok bool) {
	const far = 1 << 32 // seconds, which cannot overflow a time.Duration
	m, ok := r.Message(number)
	if !ok {
		return 0, 0, false
	}
	s, n := m.Varint(1), m.Varint(2)
	if !m.End() || s > far || n >= uint64(time.Second) {
		r.Refuse()
		return 0, 0, false
	}
	return int64(s), int64(n), true
}

func durationIn(r *fields.Reader, number protowire.Number) time.Duration {
	s, n, _ := span(r, number)
	return time.Duration(s)*time.Second + time.Duration(n)
}

// tokenIn reads a valid token.
func tokenIn(r *fields.Reader, number protowire.Number, t *session.Token) bool {
	m, _ := r.Message(number)
	t.ID = session.ID(m.Fixed64(1))
	credential, _ := m.Bytes(2)
	t.Attachment, t.Local = m.Varint(3), m.Bool(4)
	if !m.End() || t.ID == 0 || t.Attachment == 0 || len(credential) != len(t.Credential) {
		return false
	}
	copy(t.Credential[:], credential)
	return true
}

// requestsFrom reads the requests of a batch. The requests share no memory with packed.
func requestsFrom(packed []byte) ([]session.Request, error) {
	var memory requestMemory
	return unpack("requests", packed, func(b []byte, to *session.Request, left int) error {
		r := fields.Read(b)
		if memory.request(&r, to, left) {
			if trace, ok := r.Bytes(traceField); ok {
				to.Trace = session.TraceFrom(trace)
			}
			if r.End() {
				return nil
			}
		}
		p := &peerv1.Request{}
		if err := proto.Unmarshal(b, p); err != nil {
			return fmt.Errorf("decoding a request: %w", err)
		}
		request, err := requestFrom(p)
		if err == nil {
			*to = *request
		}
		return err
	})
}

// requestMemory is the memory of a batch's requests. It must not move, because the requests point into it.
type requestMemory struct {
	opens  []session.OpenRequest
	tokens []session.Token
}

// request reads a request. left is an upper bound on the remaining requests of the batch.
func (m *requestMemory) request(r *fields.Reader, to *session.Request, left int) bool {
	to.Seq = r.Varint(1)
	if open, ok := r.Message(3); ok {
		if m.opens == nil {
			m.opens = make([]session.OpenRequest, 0, left)
		}
		m.opens = append(m.opens, session.OpenRequest{})
		to.Open = &m.opens[len(m.opens)-1]
		return openIn(&open, to.Open)
	}
	if resume, ok := r.Message(4); ok {
		to.Resume = &session.ResumeRequest{}
		return resumeIn(&resume, to.Resume)
	}
	if ends, ok := r.Message(5); ok {
		if m.tokens == nil {
			m.tokens = make([]session.Token, 0, left)
		}
		m.tokens = append(m.tokens, session.Token{})
		to.Close = &m.tokens[len(m.tokens)-1]
		return tokenIn(&ends, 1, to.Close) && ends.End()
	}
	return false
}

// openIn reads a valid open without labels.
func openIn(r *fields.Reader, to *session.OpenRequest) bool {
	id, _ := r.Bytes(1)
	to.Timeout = durationIn(r, 2)
	to.MS, to.Instance = r.Varint(4), r.Fixed64(5)
	if !r.End() || len(id) != len(to.RequestID) || to.Timeout <= 0 || int64(to.MS) < 0 {
		return false
	}
	copy(to.RequestID[:], id)
	return true
}

func resumeIn(r *fields.Reader, to *session.ResumeRequest) bool {
	valid := tokenIn(r, 1, &to.Token)
	to.Instance, to.Attempt = r.Fixed64(2), r.Varint(3)
	return valid && r.End() && to.Instance != 0 && to.Attempt != 0
}

// repliesFrom reads the replies of a batch.
func repliesFrom(packed []byte) ([]session.Reply, error) {
	return unpack("replies", packed, func(b []byte, to *session.Reply, _ int) error {
		r := fields.Read(b)
		if replyIn(&r, to) {
			return nil
		}
		p := &peerv1.Reply{}
		if err := proto.Unmarshal(b, p); err != nil {
			return fmt.Errorf("decoding a reply: %w", err)
		}
		reply, err := ReplyFrom(p)
		if err == nil {
			*to = *reply
		}
		return err
	})
}

// replyIn reads a reply without a refusal and without remaining times.
func replyIn(r *fields.Reader, to *session.Reply) bool {
	to.Seq, to.Term, to.Index = r.Varint(1), r.Varint(2), r.Varint(3)
	if m, ok := r.Message(4); ok && !sessionIn(&m, &to.Session) {
		return false
	}
	to.Repeated = r.Bool(8)
	to.First = session.ID(r.Fixed64(12))
	return r.End()
}

// sessionIn reads a valid session without labels.
func sessionIn(r *fields.Reader, to *session.Session) bool {
	to.ID = session.ID(r.Fixed64(1))
	to.Timeout = durationIn(r, 2)
	owner := r.Varint(3)
	to.Attachment = r.Varint(4)
	to.Local = r.Bool(6)
	to.OpenedIndex = r.Varint(7)
	if s, n, ok := span(r, 8); ok {
		to.OpenedAt = time.Unix(s, n).UTC()
	}
	if !r.End() || to.ID == 0 || to.Timeout <= 0 || owner > uint64(session.MaxNode) || !session.Node(owner).Valid() {
		return false
	}
	to.Owner = session.Node(owner)
	return true
}
