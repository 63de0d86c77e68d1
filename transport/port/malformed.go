package port

import (
	"bytes"
	"strings"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"holdfast/session"
)

// MalformedField is the number of the field in which a message carries why it could not be read: the highest there is,
// which no message of ours has.
const MalformedField = protowire.MaxValidNumber

// maxReason bounds what is told of a message that could not be read, in bytes.
const maxReason = 256

// Unmarshal reads a message. One that cannot be read is handed on empty, with the reason in it: gRPC would refuse it as
// INTERNAL, without a detail, and [codec.unreadable] refuses it by name.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	m, ok := v.(proto.Message)
	if err == nil || !ok {
		return err
	}
	proto.Reset(m)
	reason := err.Error()
	field := protowire.AppendTag(nil, MalformedField, protowire.BytesType)
	m.ProtoReflect().SetUnknown(protowire.AppendString(field, c.mark+reason[:min(len(reason), maxReason)]))
	return nil
}

// Unreadable returns a [session.FieldError] for a message that could not be read, else nil.
func (c codec) Unreadable(m proto.Message) error {
	unknown := m.ProtoReflect().GetUnknown()
	if len(unknown) == 0 || !bytes.Contains(unknown, []byte(c.mark)) {
		return nil
	}
	_, reason, _ := bytes.Cut(unknown, []byte(c.mark))
	return &session.FieldError{
		Field: "message", Limit: "valid protobuf of " + string(m.ProtoReflect().Descriptor().FullName()) +
			", with text in UTF-8: " + strings.ToValidUTF8(string(reason), "?"),
	}
}
