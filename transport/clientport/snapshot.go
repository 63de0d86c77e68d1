package clientport

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"holdfast/backup"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// Snapshots freezes the state of a node for backups. Safe for concurrent use.
type Snapshots interface {
	// Freeze freezes the state. Unless local is set, the state includes everything that was acknowledged before the
	// call. The error is a [session.LimitError] when there are too many copies.
	Freeze(ctx context.Context, local bool) (Frozen, error)
	// Again returns a former frozen copy. The error is a [session.FieldError] when the copy is gone.
	Again(id [backup.IDSize]byte) (Frozen, error)
}

// Frozen is a frozen copy of a state. Release it once.
type Frozen interface {
	ID() [backup.IDSize]byte
	Header() backup.Header
	// Write writes the records, the same bytes each time.
	Write(w io.Writer) error
	Release()
}

// TakeSnapshot streams a backup.
func (c *clusterServer) TakeSnapshot(req *holdfastv1.TakeSnapshotRequest,
	stream grpc.ServerStreamingServer[holdfastv1.TakeSnapshotResponse],
) error {
	if c.snapshots == nil {
		return c.refuse.TakeSnapshot(req, stream)
	}
	resume := req.GetResume()
	switch {
	case len(resume) == 0 && req.GetOffset() > 0:
		return &session.FieldError{Field: "offset", Limit: "0 without resume"}
	case len(resume) > 0 && len(resume) != backup.IDSize:
		return &session.FieldError{Field: "resume", Limit: fmt.Sprintf("%d bytes", backup.IDSize)}
	case len(resume) > 0 && req.GetLocal():
		return &session.FieldError{Field: "local", Limit: "not set with resume"}
	}
	return c.node.push(stream.Context(), holdfastv1.ClusterService_TakeSnapshot_FullMethodName,
		func(m proto.Message) error { return stream.SendMsg(m) },
		func(ctx context.Context, deliver func(proto.Message) error) error {
			frozen, err := c.frozen(ctx, req)
			if err != nil {
				return err
			}
			defer frozen.Release()
			return sendSnapshot(ctx, frozen, req.GetOffset(), deliver)
		})
}

// frozen returns the copy for a request.
func (c *clusterServer) frozen(ctx context.Context, req *holdfastv1.TakeSnapshotRequest) (Frozen, error) {
	if len(req.GetResume()) == 0 {
		return c.snapshots.Freeze(ctx, req.GetLocal())
	}
	frozen, err := c.snapshots.Again([backup.IDSize]byte(req.GetResume()))
	if err != nil {
		return nil, err
	}
	if limit := frozen.Header().Bytes; req.GetOffset() > limit {
		frozen.Release()
		return nil, &session.FieldError{Field: "offset", Limit: fmt.Sprintf("at most %d", limit)}
	}
	return frozen, nil
}

// sendSnapshot sends a copy from an offset on.
func sendSnapshot(ctx context.Context, frozen Frozen, offset uint64, deliver func(proto.Message) error) error {
	id := frozen.ID()
	err := deliver(&holdfastv1.TakeSnapshotResponse{Message: &holdfastv1.TakeSnapshotResponse_Started{
		Started: &holdfastv1.SnapshotStarted{Id: id[:], Header: backup.HeaderProto(frozen.Header())},
	}})
	if err != nil {
		return err
	}
	t := &chunkWriter{ctx: ctx, deliver: deliver, skip: offset, at: offset}
	if err := frozen.Write(t); err != nil {
		return err
	}
	if err := t.flush(); err != nil {
		return err
	}
	if t.skip > 0 || t.at != frozen.Header().Bytes {
		return errors.New("a frozen state was written with another length than before")
	}
	return nil
}

// chunkWriter is a Writer that sends its input in chunks, without the first skip bytes.
type chunkWriter struct {
	ctx     context.Context //nolint:containedctx // a Writer has no other place for it
	deliver func(proto.Message) error
	skip    uint64
	// at is the position of the first unsent byte.
	at    uint64
	waits []byte
}

func (t *chunkWriter) Write(b []byte) (int, error) {
	n := len(b)
	cut := min(t.skip, uint64(n))
	t.skip -= cut
	for b = b[cut:]; len(b) > 0; {
		if t.waits == nil {
			t.waits = make([]byte, 0, backup.MaxChunk) // gRPC may keep the former chunk's bytes
		}
		part := min(len(b), backup.MaxChunk-len(t.waits))
		t.waits, b = append(t.waits, b[:part]...), b[part:]
		if len(t.waits) == backup.MaxChunk {
			if err := t.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, t.ctx.Err()
}

func (t *chunkWriter) flush() error {
	if len(t.waits) == 0 {
		return nil
	}
	chunk := &holdfastv1.SnapshotChunk{Offset: t.at, Data: t.waits, Crc32C: backup.Checksum(t.waits)}
	t.at, t.waits = t.at+uint64(len(t.waits)), nil
	return t.deliver(&holdfastv1.TakeSnapshotResponse{Message: &holdfastv1.TakeSnapshotResponse_Chunk{Chunk: chunk}})
}
