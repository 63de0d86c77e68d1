package port

import (
	"bytes"
	"strings"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"holdfast/session"
)

// malformedField is the field in which a message carries the reason why it could not be decoded: the highest field
// number, which no message of ours has.
const malformedField = protowire.MaxValidNumber

// maxReason bounds the reason in bytes.
const maxReason = 256

// Unmarshal decodes a message. It returns an undecodable message empty, with the reason in it, and [codec.unreadable]
// turns the reason into a refusal that names the field. gRPC itself would refuse the message as INTERNAL, without a
// detail.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if r, ok := v.(*received); ok {
		r.bytes, v = data.Len(), r.message
	}
	if d, ok := v.(Decoder); ok {
		var whole []byte
		if len(data) == 1 {
			whole = data[0].ReadOnlyData()
		}
		if d.Decode(whole) {
			return nil
		}
	}
	err := c.CodecV2.Unmarshal(data, v)
	m, ok := v.(proto.Message)
	if err == nil || !ok {
		return err
	}
	proto.Reset(m)
	reason := err.Error()
	field := protowire.AppendTag(nil, malformedField, protowire.BytesType)
	m.ProtoReflect().SetUnknown(protowire.AppendString(field, c.nonce+reason[:min(len(reason), maxReason)]))
	return nil
}

// unreadable returns a [session.FieldError] for a message that could not be decoded; otherwise nil.
func (c codec) unreadable(m proto.Message) error {
	unknown := m.ProtoReflect().GetUnknown()
	if len(unknown) == 0 || !bytes.Contains(unknown, []byte(c.nonce)) {
		return nil
	}
	_, reason, _ := bytes.Cut(unknown, []byte(c.nonce))
	return &session.FieldError{
		Field: "message", Limit: "valid protobuf of " + string(m.ProtoReflect().Descriptor().FullName()) +
			", with text in UTF-8: " + strings.ToValidUTF8(string(reason), "?"),
	}
}
