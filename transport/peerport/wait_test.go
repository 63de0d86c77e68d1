package peerport

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/dial"
	"holdfast/transport/wire"
)

func TestHelloIsAwaitedFiveSeconds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := peerPort(t, nil)
		defer p.stop(t)
		network := p.network
		begun := time.Now()
		stream, err := peerv1.NewPeerServiceClient(plainConn(t, network)).Follow(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = stream.Recv(); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a stream without a hello ended with %v", err)
		}
		if got := time.Since(begun); got != wire.HelloTimeout {
			t.Errorf("after %v, want %v", got, wire.HelloTimeout)
		}
		stream, err = peerv1.NewPeerServiceClient(plainConn(t, network)).Follow(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(
			&peerv1.LearnerMessage{Message: &peerv1.LearnerMessage_Answer{Answer: &peerv1.Answer{}}},
		); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(wire.Domain(err), session.ErrInvalid) {
			t.Errorf("a stream that begins with an answer ended with %v", err)
		}
	})
}

func TestASilentLeaderIsGivenUp(t *testing.T) {
	follow := func(ctx context.Context, _ session.Hello, _ LeaderLink) error {
		<-ctx.Done()
		return ctx.Err()
	}
	bubble.Test(t, func(t *testing.T) {
		p := peerPort(t, follow)
		defer p.stop(t)
		network := p.network
		begun := time.Now()
		if _, err := dial.Peer(t.Context(), peerConfig(network), session.Hello{Node: 2}); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("a leader without a welcome: %v", err)
		}
		if got := time.Since(begun); got != wire.HelloTimeout {
			t.Errorf("after %v, want %v", got, wire.HelloTimeout)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := dial.Peer(ctx, peerConfig(network), session.Hello{Node: 2}); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("the caller's deadline: %v", err)
		}
		if got := time.Since(begun); got != wire.HelloTimeout+time.Second {
			t.Errorf("gave up after %v in all", got)
		}
		nobody := peerConfig(network)
		nobody.Dial = func(context.Context, string) (net.Conn, error) { return nil, errors.New("connection refused") }
		if _, err := dial.Peer(t.Context(), nobody, session.Hello{Node: 2}); status.Code(err) != codes.Unavailable ||
			!strings.Contains(err.Error(), "connection refused") {
			t.Errorf("dialling an address without a listener: %v", err)
		}
	})
}

func TestALeaderThatDoesNotWelcome(t *testing.T) {
	follow := func(_ context.Context, _ session.Hello, l LeaderLink) error {
		return l.Send(session.LeaderMessage{Heartbeat: &session.Heartbeat{Interval: time.Second, Round: 1}})
	}
	bubble.Test(t, func(t *testing.T) {
		p := peerPort(t, follow)
		defer p.stop(t)
		network := p.network
		if _, err := dial.Peer(t.Context(), peerConfig(network), session.Hello{Node: 2}); !errors.Is(err,
			session.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	})
}
