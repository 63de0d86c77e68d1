package client

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"

	"holdfast/backup"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
)

// TakeSnapshot streams a backup of 4 bytes, and is not done with the call until a second after the last of them.
func (n *fakeNode) TakeSnapshot(_ *holdfastv1.TakeSnapshotRequest,
	stream grpc.ServerStreamingServer[holdfastv1.TakeSnapshotResponse],
) error {
	records := []byte("1234")
	h := backup.HeaderProto(backup.Header{
		Cluster: "c", Node: n.number, Version: "v", TakenAt: session.Epoch(), Index: 1, Bytes: uint64(len(records)),
	})
	started := &holdfastv1.SnapshotStarted{Id: make([]byte, backup.IDSize), Header: h}
	chunk := &holdfastv1.SnapshotChunk{Data: records, Crc32C: backup.Checksum(records)}
	err := errors.Join(
		stream.Send(&holdfastv1.TakeSnapshotResponse{
			Message: &holdfastv1.TakeSnapshotResponse_Started{Started: started},
		}),
		stream.Send(&holdfastv1.TakeSnapshotResponse{Message: &holdfastv1.TakeSnapshotResponse_Chunk{Chunk: chunk}}),
	)
	if err != nil {
		return err
	}
	select {
	case <-time.After(time.Second):
		return n.scripted("end of a snapshot")
	case <-stream.Context().Done():
		return n.scripted("snapshot cut off")
	}
}

// A client that has a whole backup waits for the end of the call: if it cancelled the call, the node's audit would call
// the act failed. How the call ends does not matter any more.
func TestTakeSnapshotWaitsForTheEnd(t *testing.T) {
	for name, ends := range map[string]error{"well": nil, "with an error": session.ErrStopping} {
		bubble.Test(t, func(t *testing.T) {
			c, cl := newTrial(t, 1, 1)
			at := c.endpoints(1, 1)[0]
			var kinds []string // the call is over when the test reads it
			c.nodes[at].script = func(kind string) error {
				kinds = append(kinds, kind)
				return ends
			}
			var got []byte
			err := cl.TakeSnapshot(t.Context(), at, SnapshotRequest{}, SnapshotTo{
				Started: func([]byte, backup.Header) error { return nil },
				Chunk:   func(b []byte) error { got = append(got, b...); return nil },
			})
			if err != nil || string(got) != "1234" {
				t.Errorf("the call ends %s: %q, %v", name, got, err)
			}
			if len(kinds) != 1 || kinds[0] != "end of a snapshot" {
				t.Errorf("the call ends %s: the node saw %q, want the end", name, kinds)
			}
		})
	}
}
