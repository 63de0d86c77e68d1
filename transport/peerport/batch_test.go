package peerport

import (
	"context"
	"fmt"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/dial"
)

// Requests and replies travel many in a message between nodes that both read that, and one by one when either end is of
// a release that does not. Their order is kept.
func TestBatchesBetweenReleases(t *testing.T) {
	const requests, replies = session.MaxPeerBatch + 100, 3000
	for _, tt := range []struct {
		learner, leader uint32
		up, down        int // messages that arrive
	}{
		{1, 1, 2, 3},
		{0, 1, 2, replies},  // the leader answers singly; the learner under test still sends batches
		{1, 0, requests, 3}, // a leader of a former release
		{9, 9, 2, 3},
	} {
		t.Run(fmt.Sprintf("learner %d, leader %d", tt.learner, tt.leader), func(t *testing.T) {
			heard := make(chan error, 1)
			follow := func(_ context.Context, hello session.Hello, l LeaderLink) error {
				if hello.PeerVersion != tt.learner {
					t.Errorf("peer version %d of the learner, want %d", hello.PeerVersion, tt.learner)
				}
				greeting := &session.Welcome{Term: 9, Leader: 1, PeerVersion: tt.leader}
				if err := l.Send(session.LeaderMessage{Welcome: greeting}); err != nil {
					return err
				}
				all := make([]session.Reply, replies)
				for i := range all {
					all[i].Seq = uint64(i)
				}
				if err := l.Send(session.LeaderMessage{Replies: all}); err != nil {
					return err
				}
				heard <- counted(requests, tt.up, func() (seqs []uint64, err error) {
					m, err := l.Recv()
					for _, r := range m.Requests {
						seqs = append(seqs, r.Seq)
					}
					return seqs, err
				})
				return nil
			}
			bubble.Test(t, func(t *testing.T) {
				p := peerPort(t, follow)
				defer p.stop(t)
				hello := session.Hello{Node: 2, Directory: 5, Incarnation: 3, Stream: 4, PeerVersion: tt.learner}
				link, err := dial.Peer(t.Context(), peerConfig(p.network), hello)
				if err != nil {
					t.Fatal(err)
				}
				defer link.Close()
				if m, err := link.Recv(); err != nil || m.Welcome == nil || m.Welcome.PeerVersion != tt.leader {
					t.Fatalf("first came %+v, %v, want the welcome of peer version %d", m.Welcome, err, tt.leader)
				}
				if err := counted(replies, tt.down, func() (seqs []uint64, err error) {
					m, err := link.Recv()
					for _, r := range m.Replies {
						seqs = append(seqs, r.Seq)
					}
					return seqs, err
				}); err != nil {
					t.Errorf("replies: %v", err)
				}
				all := make([]session.Request, requests)
				for i := range all {
					all[i] = session.Request{Seq: uint64(i), Open: &session.OpenRequest{Timeout: time.Second}}
				}
				if err := link.Send(session.LearnerMessage{Requests: all}); err != nil {
					t.Fatal(err)
				}
				if err := <-heard; err != nil {
					t.Errorf("requests: %v", err)
				}
			})
		})
	}
}

// counted returns an error unless n elements arrive in their order, in so many messages.
func counted(n, messages int, recv func() ([]uint64, error)) error {
	got, in := 0, 0
	for got < n {
		seqs, err := recv()
		if err != nil {
			return err
		}
		in++
		for _, seq := range seqs {
			if seq != uint64(got) {
				return fmt.Errorf("%d came in place of %d", seq, got)
			}
			got++
		}
	}
	if got != n || in != messages {
		return fmt.Errorf("%d in %d messages, want %d in %d", got, in, n, messages)
	}
	return nil
}
