package port

import (
	"crypto/rand"
	"fmt"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// Reply is a message to a client. Its bytes count on the connection until gRPC has written them.
type Reply struct {
	Message proto.Message
	account *Account
}

// Appender is a message to a client that encodes itself.
type Appender interface {
	// Size returns the number of bytes that Append appends.
	Size() int
	Append(b []byte) ([]byte, error)
}

// Decoder is a message from a client that decodes some forms of itself.
type Decoder interface {
	proto.Message
	// Decode reports whether it has decoded a message. If not, it leaves the message empty, and the generated code
	// decodes. It must not keep b.
	Decode(b []byte) bool
}

// received is a message from a client, with its size on the wire.
type received struct {
	message proto.Message
	bytes   int
}

// written is an Appender whose bytes count on the connection, like those of a [Reply].
type written struct {
	Appender
	account *Account
}

// messageOf converts a value of the codec or a handler to a message.
func messageOf(v any) proto.Message {
	m, ok := v.(proto.Message)
	if !ok {
		panic(fmt.Sprintf("transport: %T is not a protobuf message", v))
	}
	return m
}

// codec is gRPC's codec, but counts replies on their connections. gRPC queues 64 KiB and one message of each stream
// even if the client reads nothing, and keeps them after the handler has ended. Only the release of a message's buffer
// shows that the message has gone.
type codec struct {
	encoding.CodecV2
	// nonce precedes the reason in a message that could not be decoded. It is random, so that no client can send a
	// message that looks undecodable.
	nonce string
}

// newCodec returns a codec for one port.
func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name), rand.Text()} }

// Marshal returns the bytes of a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case written:
		return m.account.marshal(m.Size(), m.Append)
	case Reply:
		return m.account.marshal(proto.Size(m.Message), func(b []byte) ([]byte, error) {
			return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m.Message)
		})
	default:
		return c.CodecV2.Marshal(v)
	}
}

// marshal returns a buffer of the account with the output of write, which has the given size.
func (a *Account) marshal(size int, write func(b []byte) ([]byte, error)) (mem.BufferSlice, error) {
	buffer := a.Get(size)
	if _, err := write((*buffer)[:0]); err != nil {
		a.Put(buffer)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buffer, a)}, nil
}
