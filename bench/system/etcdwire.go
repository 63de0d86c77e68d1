package system

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Methods of etcd's API that sessions and keys need. Its messages are few and small, so they are written by hand here rather
// than with its module, of which Holdfast's would then depend.
const (
	etcdGrant     = "/etcdserverpb.Lease/LeaseGrant"
	etcdRevoke    = "/etcdserverpb.Lease/LeaseRevoke"
	etcdKeepAlive = "/etcdserverpb.Lease/LeaseKeepAlive"
	etcdLeases    = "/etcdserverpb.Lease/LeaseLeases"
	etcdState     = "/etcdserverpb.Maintenance/Status"
	etcdPut       = "/etcdserverpb.KV/Put"
	etcdRange     = "/etcdserverpb.KV/Range"
)

// raw is a message as its bytes.
type raw []byte

// rawCodec sends and receives messages as bytes.
type rawCodec struct{}

// Name is that of the content: protocol buffers.
func (rawCodec) Name() string { return "proto" }

// Marshal takes a *raw.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*raw)
	if !ok {
		return nil, fmt.Errorf("marshal %T: want *raw", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*m)}, nil
}

// Unmarshal takes a *raw.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*raw)
	if !ok {
		return fmt.Errorf("unmarshal %T: want *raw", v)
	}
	*m = data.Materialize()
	return nil
}

// numbers builds a message of integer fields, numbered from 1.
func numbers(fields ...int64) *raw {
	var b raw
	for i, v := range fields {
		if v != 0 {
			b = protowire.AppendTag(b, protowire.Number(i+1), protowire.VarintType)
			b = protowire.AppendVarint(b, uint64(v)) //nolint:gosec // its bits
		}
	}
	return &b
}

// field is one of a message: its number, its value if it is an integer, its bytes if it has some.
type field struct {
	n     int
	v     int64
	inner []byte
}

// walk calls each with every field of a message.
func walk(b []byte, each func(field)) error {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		f := field{n: int(n)}
		switch kind { //nolint:exhaustive // the others are skipped
		case protowire.VarintType:
			var v uint64
			v, size = protowire.ConsumeVarint(b)
			f.v = int64(v) //nolint:gosec // its bits
		case protowire.BytesType:
			f.inner, size = protowire.ConsumeBytes(b)
		default:
			size = protowire.ConsumeFieldValue(n, kind, b)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		each(f)
		b = b[size:]
	}
	return nil
}

// number returns an integer field of a message, 0 if it is not there.
func number(b []byte, n int) (v int64, err error) {
	err = walk(b, func(f field) {
		if f.n == n {
			v = f.v
		}
	})
	return v, err
}

// lease reads the answer to a grant or a keep-alive: 2 is the lease's id, 3 its time to live in seconds.
func lease(b raw) (id, ttl int64, err error) {
	err = walk(b, func(f field) {
		switch f.n {
		case 2:
			id = f.v
		case 3:
			ttl = f.v
		}
	})
	return id, ttl, err
}

// etcdStatus returns the number of the server, which is 2 in its answer's header, and that of the leader that it knows.
func etcdStatus(ctx context.Context, conn *grpc.ClientConn) (self, leader int64, err error) {
	var answer raw
	if err = conn.Invoke(ctx, etcdState, numbers(), &answer); err != nil {
		return 0, 0, err
	}
	var header []byte
	if err = walk(answer, func(f field) {
		switch f.n {
		case 1:
			header = f.inner
		case 4:
			leader = f.v
		}
	}); err != nil {
		return 0, 0, err
	}
	self, err = number(header, 2)
	return self, leader, err
}

// etcdIndex returns the index of the newest entry that a server knows to be committed: 5 in its status.
func etcdIndex(ctx context.Context, conn *grpc.ClientConn) (uint64, error) {
	var answer raw
	if err := conn.Invoke(ctx, etcdState, numbers(), &answer); err != nil {
		return 0, err
	}
	index, err := number(answer, 5)
	return uint64(index), err //nolint:gosec // its bits
}

// etcdCount returns the number of leases that a server knows.
func etcdCount(ctx context.Context, conn *grpc.ClientConn) (count int, err error) {
	var answer raw
	if err = conn.Invoke(ctx, etcdLeases, numbers(), &answer, grpc.MaxCallRecvMsgSize(pageBytes)); err != nil {
		return 0, err
	}
	err = walk(answer, func(f field) {
		if f.n == 2 {
			count++
		}
	})
	return count, err
}
