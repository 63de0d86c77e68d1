package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"holdfast/backup"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// snapshotTimeout is how long a node may send nothing of a backup.
const snapshotTimeout = 30 * time.Second

// SnapshotRequest says which backup a node is to stream. The zero value asks for one that shows all that was
// acknowledged before the call.
type SnapshotRequest struct {
	// Local asks for the state that the node has, which may be old. The node asks no leader, so that no quorum is
	// needed.
	Local bool
	// Resume continues a stream of the same node that was cut off, at Offset: the ID that [SnapshotTo.Started] got.
	Resume []byte
	Offset uint64
}

// SnapshotTo receives a backup. An error of a function ends the stream, and is returned.
type SnapshotTo struct {
	// Started gets the name of the frozen copy that the node streams, and the copy's header. It is called first, once.
	Started func(id []byte, h backup.Header) error
	// Chunk gets the records, in order, from the requested offset. The bytes are its own.
	Chunk func(b []byte) error
}

// errChunk: a chunk differs from the chunk that the node sent.
var errChunk = errors.New("a chunk was damaged or is missing")

// TakeSnapshot streams a backup of the cluster's state from the node at endpoint, host:port. The error is
// [ErrUnreachable] when the stream was cut off: it can be resumed for two minutes. It is a [session.FieldError] of the
// field resume when the node no longer has the copy. Safe for concurrent use.
func (c *Client) TakeSnapshot(ctx context.Context, endpoint string, r SnapshotRequest, to SnapshotTo) error {
	var own error // of to
	err := c.nodes.At(ctx, endpoint, func(_ context.Context, cc *grpc.ClientConn) error {
		streaming, cancel := context.WithCancel(ctx)
		defer cancel()
		silent := time.AfterFunc(snapshotTimeout, cancel)
		defer silent.Stop()
		stream, err := holdfastv1.NewClusterServiceClient(cc).TakeSnapshot(streaming, &holdfastv1.TakeSnapshotRequest{
			Local: r.Local, Resume: r.Resume, Offset: r.Offset,
		})
		if err != nil {
			return err
		}
		t := taking{at: r.Offset, to: to}
		for !t.whole() {
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			silent.Reset(snapshotTimeout)
			if own = t.receive(m); own != nil {
				return nil
			}
		}
		// The backup is complete, however the call ends. A node audits a call that is cancelled before its end as a
		// failure.
		_, _ = stream.Recv()
		return nil
	})
	if err = errors.Join(own, err); err != nil {
		return fmt.Errorf("take a snapshot from %s: %w", endpoint, err)
	}
	return nil
}

// taking is a backup that is being received.
type taking struct {
	to SnapshotTo
	// at is the position of the next byte, size how many there are; 0 before Started.
	at, size uint64
}

func (t *taking) whole() bool { return t.size > 0 && t.at == t.size }

func (t *taking) receive(m *holdfastv1.TakeSnapshotResponse) error {
	if started := m.GetStarted(); started != nil {
		h, err := backup.HeaderFrom(started.GetHeader())
		switch {
		case err != nil:
			return err
		case t.size > 0 || t.at > h.Bytes:
			return errChunk
		case len(started.GetId()) != backup.IDSize:
			return &session.FieldError{Field: "id", Limit: fmt.Sprintf("%d bytes", backup.IDSize)}
		}
		t.size = h.Bytes
		return t.to.Started(started.GetId(), h)
	}
	chunk := m.GetChunk()
	b := chunk.GetData()
	if t.size == 0 || chunk.GetOffset() != t.at || len(b) == 0 || uint64(len(b)) > t.size-t.at ||
		chunk.GetCrc32C() != backup.Checksum(b) {
		return errChunk
	}
	t.at += uint64(len(b))
	return t.to.Chunk(b)
}
