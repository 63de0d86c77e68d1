package port

import (
	"crypto/rand"
	"fmt"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// Parcel is a message on its way to a client. Its bytes count on the connection until gRPC has written them.
type Parcel struct {
	Message proto.Message
	account *Account
}

// messageOf returns what the codec made, or a handler answers: a message.
func messageOf(v any) proto.Message {
	m, ok := v.(proto.Message)
	if !ok {
		panic(fmt.Sprintf("transport: %T is no message", v))
	}
	return m
}

// codec is gRPC's own, which counts parcels. Of each stream gRPC queues 64 KiB and one message, however little the
// client reads, and goes on keeping them when the handler has ended: only the end of a buffer's use tells that a
// message has gone.
type codec struct {
	encoding.CodecV2
	// mark begins the field in which a message says why it could not be read. It is drawn at random, so that nobody can
	// send a message that looks as if this process could not read it.
	mark string
}

// NewCodec returns a codec for one port.
func NewCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name), rand.Text()} }

// Marshal returns the bytes of a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	p, ok := v.(Parcel)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	buffer := p.account.Get(proto.Size(p.Message))
	if _, err := (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend((*buffer)[:0], p.Message); err != nil {
		p.account.Put(buffer)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buffer, p.account)}, nil
}
