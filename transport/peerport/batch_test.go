package peerport

import (
	"context"
	"fmt"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/dial"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/wire"
)

// Requests and replies travel many in a message, in their order.
func TestBatches(t *testing.T) {
	const requests, replies = session.MaxPeerBatch + 100, 3000
	heard := make(chan error, 1)
	follow := func(_ context.Context, _ session.Hello, l LeaderLink) error {
		if err := l.Send(session.LeaderMessage{Welcome: &session.Welcome{Term: 9, Leader: 1}}); err != nil {
			return err
		}
		all := make([]session.Reply, replies)
		for i := range all {
			all[i].Seq = uint64(i)
		}
		if err := l.Send(session.LeaderMessage{Replies: all}); err != nil {
			return err
		}
		heard <- counted(requests, 2, func() (seqs []uint64, err error) {
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
		hello := session.Hello{Node: 2, Directory: 5, Incarnation: 3, Stream: 4}
		link, err := dial.Peer(t.Context(), peerConfig(p.network), hello)
		if err != nil {
			t.Fatal(err)
		}
		defer link.Close()
		if m, err := link.Recv(); err != nil || m.Welcome == nil {
			t.Fatalf("first came %+v, %v, want the welcome", m, err)
		}
		if err := counted(replies, 3, func() (seqs []uint64, err error) {
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
			all[i] = session.Request{
				Seq:  uint64(i),
				Open: &session.OpenRequest{Spec: session.Spec{Timeout: time.Second}},
			}
		}
		if err := link.Send(session.LearnerMessage{Requests: all}); err != nil {
			t.Fatal(err)
		}
		if err := <-heard; err != nil {
			t.Errorf("requests: %v", err)
		}
	})
}

// A node refuses messages of another format by the number, at both ends.
func TestAnotherPeerFormat(t *testing.T) {
	for _, found := range []uint32{0, session.PeerFormat + 1} {
		hello := wire.HelloProto("c", session.Hello{Node: 2, Incarnation: 1, Stream: 1})
		hello.GetHello().Format, hello.GetHello().Node = found, 0 // another release may count nodes in another way
		_, _, err := wire.HelloFrom(hello)
		porttest.WantField(t, err, "hello.format")
		welcome, err := wire.LeaderProto(session.LeaderMessage{Welcome: &session.Welcome{Term: 9, Leader: 1}})
		if err != nil {
			t.Fatal(err)
		}
		welcome.GetWelcome().Format = found
		_, err = wire.LeaderFrom(welcome)
		porttest.WantField(t, err, "welcome.format")
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
