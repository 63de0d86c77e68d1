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
	// Freeze freezes the state: unless local, one that shows all that was acknowledged before the call. The error is a
	// [session.LimitError] when there are too many copies already.
	Freeze(ctx context.Context, local bool) (Frozen, error)
	// Again returns a copy that was frozen before. The error is a [session.FieldError] when it is gone.
	Again(id [backup.IDSize]byte) (Frozen, error)
}

// Frozen is a frozen copy of a state. It is released once.
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
	return c.node.tell(stream.Context(), holdfastv1.ClusterService_TakeSnapshot_FullMethodName,
		func(m proto.Message) error { return stream.SendMsg(m) },
		func(ctx context.Context, say func(proto.Message) error) error {
			frozen, err := c.frozen(ctx, req)
			if err != nil {
				return err
			}
			defer frozen.Release()
			return tellSnapshot(ctx, frozen, req.GetOffset(), say)
		})
}

// frozen returns the copy that a request is about.
func (c *clusterServer) frozen(ctx context.Context, req *holdfastv1.TakeSnapshotRequest) (Frozen, error) {
	if len(req.GetResume()) == 0 {
		return c.snapshots.Freeze(ctx, req.GetLocal())
	}
	frozen, err := c.snapshots.Again([backup.IDSize]byte(req.GetResume()))
	if err != nil {
		return nil, err
	}
	if most := frozen.Header().Bytes; req.GetOffset() > most {
		frozen.Release()
		return nil, &session.FieldError{Field: "offset", Limit: fmt.Sprintf("at most %d", most)}
	}
	return frozen, nil
}

// tellSnapshot sends a copy from an offset on.
func tellSnapshot(ctx context.Context, frozen Frozen, offset uint64, say func(proto.Message) error) error {
	id := frozen.ID()
	err := say(&holdfastv1.TakeSnapshotResponse{Message: &holdfastv1.TakeSnapshotResponse_Started{
		Started: &holdfastv1.SnapshotStarted{Id: id[:], Header: backup.HeaderProto(frozen.Header())},
	}})
	if err != nil {
		return err
	}
	t := &snapshotTeller{ctx: ctx, say: say, skip: offset, at: offset}
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

// snapshotTeller sends what is written to it in chunks, but for the first skip bytes.
type snapshotTeller struct {
	ctx  context.Context //nolint:containedctx // a Writer has no other place for it
	say  func(proto.Message) error
	skip uint64
	// at is the position of the first byte that waits.
	at    uint64
	waits []byte
}

func (t *snapshotTeller) Write(b []byte) (int, error) {
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

func (t *snapshotTeller) flush() error {
	if len(t.waits) == 0 {
		return nil
	}
	chunk := &holdfastv1.SnapshotChunk{Offset: t.at, Data: t.waits, Crc32C: backup.Checksum(t.waits)}
	t.at, t.waits = t.at+uint64(len(t.waits)), nil
	return t.say(&holdfastv1.TakeSnapshotResponse{Message: &holdfastv1.TakeSnapshotResponse_Chunk{Chunk: chunk}})
}
