package peerport

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/dial"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/wire"
)

// mostBytes is the largest message between nodes.
const mostBytes = 4 << 20

// padded makes what fills a message up to a size, by the message that it makes of some bytes.
func padded[M proto.Message](size int, of func([]byte) M) M {
	return of(make([]byte, size-(proto.Size(of(make([]byte, size)))-size)))
}

// A message of a learner that is larger than 4 MiB ends its stream with the limit. One of 4 MiB is read.
func TestAMessageOfALearnerIsBounded(t *testing.T) {
	requests := func(b []byte) *peerv1.LearnerMessage {
		return &peerv1.LearnerMessage{Message: &peerv1.LearnerMessage_Requests{Requests: b}}
	}
	reads := func(_ context.Context, _ session.Hello, l LeaderLink) error {
		err := welcome(l)
		for err == nil {
			_, err = l.Recv()
		}
		return err
	}
	bubble.Test(t, func(t *testing.T) {
		p := peerPort(t, reads)
		defer p.stop(t)
		for size, bounded := range map[int]bool{mostBytes: false, mostBytes + 1: true, 3 * mostBytes: true} {
			stream, err := peerv1.NewPeerServiceClient(plainConn(t, p.network)).Follow(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			m := padded(size, requests)
			if got := proto.Size(m); got != size {
				t.Fatalf("the message has %d bytes, want %d", got, size)
			}
			if err = stream.Send(wire.HelloProto("c", session.Hello{Node: 2})); err != nil {
				t.Fatal(err)
			}
			if _, err = stream.Recv(); err != nil { // the welcome, which a refusal of the next message would overtake
				t.Fatal(err)
			}
			if err = stream.Send(m); err != nil && !errors.Is(err, io.EOF) { // EOF: Recv has the reason
				t.Fatal(err)
			}
			_, err = stream.Recv()
			if _, ok := errors.AsType[*session.LimitError](wire.Domain(err)); ok != bounded || err == nil {
				t.Errorf("a message of %d bytes: %v; refused for its size: %t, want %t", size, err, ok, bounded)
			}
		}
	})
}

// large is a leader that sends a message of so many bytes behind its welcome.
type large struct {
	peerv1.UnimplementedPeerServiceServer

	size int
}

func (l *large) Follow(stream peerv1.PeerService_FollowServer) error {
	first, err := wire.LeaderProto(session.LeaderMessage{Welcome: &session.Welcome{Term: 9, Leader: 1}})
	if err != nil {
		return err
	}
	second := padded(l.size, func(b []byte) *peerv1.LeaderMessage {
		return &peerv1.LeaderMessage{Message: &peerv1.LeaderMessage_Replies{Replies: b}}
	})
	if err := errors.Join(stream.Send(first), stream.Send(second)); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// A message of the leader that is larger than 4 MiB ends the stream too. One of 4 MiB is read.
func TestAMessageOfTheLeaderIsBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for size, bounded := range map[int]bool{mostBytes: false, mostBytes + 1: true, 3 * mostBytes: true} {
			network := porttest.NewPipes()
			s := grpc.NewServer(grpc.Creds(insecure.NewCredentials()))
			peerv1.RegisterPeerServiceServer(s, &large{size: size})
			served := make(chan error, 1)
			go func() { served <- s.Serve(network) }()
			link, err := dial.Peer(t.Context(), peerConfig(network), session.Hello{Node: 2})
			if err != nil {
				t.Fatal(err)
			}
			if _, err = link.Recv(); err != nil { // the welcome
				t.Fatal(err)
			}
			_, err = link.Recv()
			if _, ok := errors.AsType[*session.LimitError](err); ok != bounded || err == nil {
				t.Errorf("a message of %d bytes: %v; refused for its size: %t, want %t", size, err, ok, bounded)
			}
			if bounded && !strings.Contains(err.Error(), "larger than max") {
				t.Errorf("a message of %d bytes: %v", size, err)
			}
			_ = link.Close()
			s.Stop()
			if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}
