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

// messageOf returns a value of the codec or a handler as the message that it is.
func messageOf(v any) proto.Message {
	m, ok := v.(proto.Message)
	if !ok {
		panic(fmt.Sprintf("transport: %T is not a protobuf message", v))
	}
	return m
}

// codec is gRPC's codec, but it counts replies on their connections. gRPC queues 64 KiB and one message of each stream
// however little the client reads, and keeps them after the handler has ended. Only the release of a message's buffer
// tells that the message has gone.
type codec struct {
	encoding.CodecV2
	// nonce precedes the reason in a message that could not be read. It is random, so that no client can send a message
	// that looks unreadable.
	nonce string
}

// newCodec returns a codec for one port.
func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name), rand.Text()} }

// Marshal returns the bytes of a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(Reply)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	buffer := r.account.Get(proto.Size(r.Message))
	if _, err := (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend((*buffer)[:0], r.Message); err != nil {
		r.account.Put(buffer)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buffer, r.account)}, nil
}
