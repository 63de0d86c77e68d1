package wire

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"holdfast/proto/fields"
	"holdfast/session"
)

// Numbers of fields, as in proto/holdfast/v1.
const (
	openedField, resumedField, touchedField, closedField = 1, 2, 3, 4
	goneField                                            = 6
	answersField, upgradedField, stateField              = 13, 12, 15
)

// The functions below append answers to requests of a Connect stream, each a field of ServerMessage, in protocol
// buffers. They produce the bytes of the marshalled message without making the message: nearly all messages of a busy
// node are of these kinds.

// AppendOpened appends the answer to an open.
func AppendOpened(b []byte, seq uint64, g *session.Grant) []byte {
	return appendGrant(b, openedField, seq, g)
}

// AppendResumed appends the answer to a resume.
func AppendResumed(b []byte, seq uint64, g *session.Grant) []byte {
	b, start := fields.Begin(b, resumedField)
	b = appendGranted(b, seq, g)
	b = fields.Varint(b, 5, g.Applied)
	b = fields.Varint(b, 6, g.Floor)
	return fields.End(b, start)
}

// AppendUpgraded appends the answer to an upgrade.
func AppendUpgraded(b []byte, seq uint64, g *session.Grant) []byte {
	return appendGrant(b, upgradedField, seq, g)
}

// AppendTouched appends the answer to a touch without failures. delivered is 0 for none (G4 stamps of answers).
func AppendTouched(b []byte, seq uint64, safeFor time.Duration, delivered uint64) []byte {
	b, start := fields.Begin(b, touchedField)
	b = fields.Varint(b, 1, seq)
	b = appendPromise(b, 2, safeFor)
	b = fields.Fixed64(b, 4, delivered)
	return fields.End(b, start)
}

// AppendClosed appends the answer to a close.
func AppendClosed(b []byte, seq uint64) []byte {
	b, start := fields.Begin(b, closedField)
	b = fields.Varint(b, 1, seq)
	return fields.End(b, start)
}

// AppendGone appends a Gone of ids, eight bytes each with the lowest first, and of certificates in the bytes of
// [AppendCertificate].
func AppendGone(b []byte, cause session.Cause, ids, certificates []byte) []byte {
	b, start := fields.Begin(b, goneField)
	b = fields.Bytes(b, 1, ids)
	b = fields.Varint(b, 2, uint64(causeProto(cause)))
	b = append(b, certificates...)
	return fields.End(b, start)
}

// AppendCertificate appends a certificate of a Gone. It equals the result of [CertificateProto] without the story: ends
// come by the thousand, and a read returns the story. If an operator ended the session, it includes what the operator
// said.
func AppendCertificate(b []byte, c *session.Certificate) []byte {
	b, start := fields.Begin(b, 3)
	b = fields.Fixed64(b, 1, uint64(c.ID))
	b = fields.Varint(b, 2, uint64(causeProto(c.Cause)))
	b = appendPromise(b, 3, c.LastTouchAge)
	b = fields.Varint(b, 4, uint64(c.Owner))
	b = fields.Varint(b, 5, c.Term)
	b = appendDuration(b, 6, c.Credited)
	b = fields.Varint(b, 7, c.Index)
	if !c.EndedAt.IsZero() {
		b = appendSpan(b, 8, c.EndedAt.Unix(), int32(c.EndedAt.Nanosecond()))
	}
	b = fields.Varint(b, 9, c.Left.Applied)
	b = fields.Varint(b, 10, c.Left.Floor)
	b = fields.Fixed64(b, 11, c.Left.Instance)
	b = fields.Varint(b, 12, c.Left.Ephemerals)
	b = fields.Varint(b, 13, uint64(c.Left.Will))
	b = appendKill(b, c)
	return fields.End(b, start)
}

// appendKill appends the story of a session that an operator ended, without its labels.
func appendKill(b []byte, c *session.Certificate) []byte {
	s := &c.Story
	if s.Timeout == 0 || c.Cause != session.CauseKilled {
		return b
	}
	b = appendDuration(b, 14, s.Timeout)
	if !s.OpenedAt.IsZero() {
		b = appendSpan(b, 15, s.OpenedAt.Unix(), int32(s.OpenedAt.Nanosecond()))
	}
	b = fields.Bytes(b, 20, []byte(s.By))
	return fields.Bytes(b, 21, []byte(s.Why))
}

// AppendState appends a node's state to a ServerMessage.
func AppendState(b []byte, s session.NodeState) []byte {
	b, start := fields.Begin(b, stateField)
	b = fields.Varint(b, 1, uint64(s.Node))
	b = fields.Varint(b, 2, uint64(ModeProto(s.Mode)))
	b = fields.Varint(b, 3, s.Index)
	b = fields.Varint(b, 4, session.MaxBatch)
	if s.Draining {
		b = fields.Varint(b, 10, 1)
	}
	b = fields.Fixed64(b, 11, s.Cluster)
	return fields.End(b, start)
}

// StateSize returns the number of bytes that AppendState appends.
func StateSize(s session.NodeState) int {
	var buffer [48]byte
	return len(AppendState(buffer[:0], s))
}

// AppendAnswers appends the beginning of an Answers with messages of the given size, including each message's prefix.
func AppendAnswers(b []byte, bytes int) []byte {
	b = protowire.AppendTag(b, answersField, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(bytes))
}

// AnswersSize returns the number of bytes that AppendAnswers appends.
func AnswersSize(bytes int) int {
	return protowire.SizeTag(answersField) + protowire.SizeVarint(uint64(bytes))
}

// AppendAnswer appends the beginning of a message of the given size in an Answers.
func AppendAnswer(b []byte, bytes int) []byte {
	b = protowire.AppendTag(b, 1, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(bytes))
}

// AnswerSize returns the size of a message in an Answers.
func AnswerSize(bytes int) int { return protowire.SizeTag(1) + protowire.SizeBytes(bytes) }

func appendGrant(b []byte, field protowire.Number, seq uint64, g *session.Grant) []byte {
	b, start := fields.Begin(b, field)
	return fields.End(appendGranted(b, seq, g), start)
}

// appendGranted appends the common fields of all answers with a grant.
func appendGranted(b []byte, seq uint64, g *session.Grant) []byte {
	b = fields.Varint(b, 1, seq)
	b = appendSession(b, 2, &g.Session)
	b = appendToken(b, 3, &g.Token)
	return appendPromise(b, 4, g.SafeFor)
}

func appendSession(b []byte, field protowire.Number, s *session.Session) []byte {
	b, start := fields.Begin(b, field)
	b = fields.Fixed64(b, 1, uint64(s.ID))
	b = appendPromise(b, 2, s.Timeout)
	b = fields.Varint(b, 3, uint64(s.Owner))
	b = fields.Varint(b, 4, s.Attachment)
	for _, l := range s.Labels {
		var entry int
		b, entry = fields.Begin(b, 5)
		b = appendText(b, 1, l.Key)
		b = appendText(b, 2, l.Value)
		b = fields.End(b, entry)
	}
	b = fields.Varint(b, 6, protowire.EncodeBool(s.Local))
	b = fields.Varint(b, 7, s.OpenedIndex)
	if !s.OpenedAt.IsZero() {
		b = appendSpan(b, 8, s.OpenedAt.Unix(), int32(s.OpenedAt.Nanosecond()))
	}
	return fields.End(b, start)
}

// appendPromise appends a duration that may be unknown, as [PromiseProto] does.
func appendPromise(b []byte, field protowire.Number, d time.Duration) []byte {
	if d < 0 {
		return b
	}
	return appendDuration(b, field, d)
}

func appendText(b []byte, number protowire.Number, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), v)
}
