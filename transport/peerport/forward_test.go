package peerport

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/dial"
	"holdfast/transport/wire"
)

// forwardFunc is a function as a [Forwarder].
type forwardFunc func(context.Context, session.ForwardHello, ForwardLink) error

func (f forwardFunc) Forward(ctx context.Context, h session.ForwardHello, l ForwardLink) error {
	return f(ctx, h, l)
}

// takes is a Forwarder that sends a welcome, and reads all writes of its node.
func takes(_ context.Context, h session.ForwardHello, l ForwardLink) error {
	err := l.Welcome(h.Term)
	for err == nil {
		_, err = l.Recv()
	}
	return err
}

// dialForward follows as node 2, and opens its Forward stream.
func dialForward(t *testing.T, p *peerRig) (*dial.PeerLink, *dial.ForwardLink) {
	t.Helper()
	link := dialPeer(t, p.network)
	forward, err := link.Forward()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = forward.Close() })
	return link, forward
}

func forwardMessages() []session.ForwardMessage {
	return []session.ForwardMessage{
		{Writes: []session.ForwardedWrite{
			{Command: []byte{1}, Weight: 1, Session: 5, Number: 1},
			{Command: []byte{2, 3}, Weight: 1 << 31, Session: 1 << 63, Number: 1 << 63},
		}},
		{Writes: []session.ForwardedWrite{{
			Command: make([]byte, session.MaxCommandBytes), Weight: 1, Session: 5, Number: 2,
		}}},
		{Acknowledged: []session.Acknowledged{{Session: 5, UpTo: 2}, {Session: 6, UpTo: 1}}},
	}
}

func TestForwardMessagesArriveAsTheyWereSent(t *testing.T) {
	refusals := []session.WriteRefusal{
		{Session: 5, Number: 1, Why: session.WriteBusy, RetryAfter: time.Second},
		{Session: 1 << 63, Number: 1 << 63, Why: session.WriteStopping},
	}
	var hello session.ForwardHello
	got := make(chan session.ForwardMessage, 10)
	forward := func(_ context.Context, h session.ForwardHello, l ForwardLink) error {
		hello = h
		if err := l.Welcome(h.Term); err != nil {
			return err
		}
		for range forwardMessages() {
			m, err := l.Recv()
			if err != nil {
				return err
			}
			got <- m
		}
		if err := l.Refuse(refusals); err != nil {
			return err
		}
		return &session.NotLeaderError{Leader: 3, Address: "n3"}
	}
	bubble.Test(t, func(t *testing.T) {
		p := peerPortOf(t, hears, forward, 0)
		defer p.stop(t)
		_, link := dialForward(t, p)
		for _, want := range forwardMessages() {
			if err := link.Send(want); err != nil {
				t.Fatal(err)
			}
			if m := <-got; !reflect.DeepEqual(m, want) {
				t.Errorf("got %d writes, %+v, want %d, %+v", len(m.Writes), m.Acknowledged, len(want.Writes),
					want.Acknowledged)
			}
		}
		if all, err := link.Recv(); err != nil || !reflect.DeepEqual(all, refusals) {
			t.Errorf("refused: %+v, %v, want %+v", all, err, refusals)
		}
		if _, err := link.Recv(); !errors.Is(err, session.ErrNotLeader) {
			t.Errorf("the stream ended with %v, want %v", err, session.ErrNotLeader)
		}
	})
	if want := (session.ForwardHello{Node: 2, Incarnation: 3, Term: 9}); hello != want {
		t.Errorf("hello %+v, want %+v", hello, want)
	}
}

// A leader that refuses the stream says why, before anything was sent.
func TestALeaderRefusesAForwardStream(t *testing.T) {
	for _, want := range []error{session.ErrNotLeader, session.ErrStopping} {
		bubble.Test(t, func(t *testing.T) {
			p := peerPortOf(t, hears, func(context.Context, session.ForwardHello, ForwardLink) error { return want }, 0)
			defer p.stop(t)
			if _, err := dialPeer(t, p.network).Forward(); !errors.Is(err, want) {
				t.Errorf("Forward: %v, want %v", err, want)
			}
		})
	}
}

// A port without a forwarder accepts no writes, and says so.
func TestAPortThatAcceptsNoWrites(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := peerPort(t, hears)
		defer p.stop(t)
		if _, err := dialPeer(t, p.network).Forward(); status.Code(err) != codes.Unimplemented {
			t.Errorf("Forward: %v, want UNIMPLEMENTED", err)
		}
	})
}

// rawForward opens a Forward stream that says what the test wants.
func rawForward(t *testing.T, p *peerRig, first *peerv1.ForwardRequest) peerv1.PeerService_ForwardClient {
	t.Helper()
	stream, err := peerv1.NewPeerServiceClient(plainConn(t, p.network)).Forward(t.Context(), grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if first != nil {
		if err := stream.Send(first); err != nil {
			t.Fatal(err)
		}
	}
	return stream
}

// The port refuses streams of other clusters and of no members, and streams that say nothing or nonsense first.
func TestForwardStreamsOfOthersAreRefused(t *testing.T) {
	hello := session.ForwardHello{Node: 2, Incarnation: 3, Term: 9}
	none, stranger := hello, hello
	none.Term, stranger.Node = 0, 6
	for name, tt := range map[string]struct {
		first *peerv1.ForwardRequest
		want  error
	}{
		"another cluster": {wire.ForwardHelloProto("other", hello), session.ErrWrongCluster},
		"no member":       {wire.ForwardHelloProto("c", stranger), session.ErrWrongCluster},
		"no term":         {wire.ForwardHelloProto("c", none), session.ErrInvalid},
		"no hello":        {wire.ForwardProto(forwardMessages()[0]), session.ErrInvalid},
		"nothing":         {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				p := peerPortOf(t, hears, func(context.Context, session.ForwardHello, ForwardLink) error {
					t.Error("a refused stream was served")
					return nil
				}, 0)
				defer p.stop(t)
				begun := time.Now()
				_, err := rawForward(t, p, tt.first).Recv()
				switch took := time.Since(begun); {
				case tt.want != nil && !errors.Is(wire.Domain(err), tt.want):
					t.Errorf("ended with %v, want %v", err, tt.want)
				case tt.want == nil && (status.Code(err) != codes.DeadlineExceeded || took != wire.HelloTimeout):
					t.Errorf("ended with %v after %v, want a time-out after %v", err, took, wire.HelloTimeout)
				}
				if !strings.Contains(p.log.String(), "peer refused") {
					t.Errorf("the log does not say it:\n%s", p.log)
				}
			})
		})
	}
}

// A message that no node sends ends the stream, and both sides learn why.
func TestABadForwardMessageEndsTheStream(t *testing.T) {
	tooMany := session.ForwardMessage{}
	for range session.MaxPeerBatch + 1 {
		tooMany.Writes = append(tooMany.Writes, session.ForwardedWrite{Command: []byte{1}, Weight: 1, Session: 1, Number: 1})
	}
	for name, m := range map[string]*peerv1.ForwardRequest{
		"nothing":      {},
		"second hello": wire.ForwardHelloProto("c", session.ForwardHello{Node: 2, Term: 9}),
		"no command": wire.ForwardProto(session.ForwardMessage{
			Writes: []session.ForwardedWrite{{Weight: 1, Session: 1, Number: 1}},
		}),
		"too large a command": wire.ForwardProto(session.ForwardMessage{Writes: []session.ForwardedWrite{
			{Command: make([]byte, session.MaxCommandBytes+1), Weight: 1, Session: 1, Number: 1},
		}}),
		"too many": wire.ForwardProto(tooMany),
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				p := peerPortOf(t, hears, takes, 0)
				defer p.stop(t)
				stream := rawForward(t, p, wire.ForwardHelloProto("c", session.ForwardHello{Node: 2, Term: 9}))
				if _, err := stream.Recv(); err != nil {
					t.Fatal(err)
				}
				if err := stream.Send(m); err != nil {
					t.Fatal(err)
				}
				if _, err := stream.Recv(); !errors.Is(wire.Domain(err), session.ErrInvalid) {
					t.Errorf("ended with %v, want %v", err, session.ErrInvalid)
				}
			})
		})
	}
}

// A Forward stream on which nothing is written lives as long as the Follow stream beside it, and ends with it.
func TestAForwardStreamEndsWithItsFollowStream(t *testing.T) {
	var ended atomic.Int32
	forward := func(ctx context.Context, h session.ForwardHello, l ForwardLink) error {
		defer ended.Add(1)
		return takes(ctx, h, l)
	}
	bubble.Test(t, func(t *testing.T) {
		p := peerPortOf(t, hears, forward, 0)
		defer p.stop(t)
		link := dialPeer(t, p.network)
		one, err := link.Forward()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = one.Close() }()
		for range 3 {
			time.Sleep(learnerSilence - time.Second)
			if err := link.Send(session.LearnerMessage{Answer: &session.Answer{Round: 1, Last: true}}); err != nil {
				t.Fatal(err)
			}
		}
		if ended.Load() != 0 {
			t.Fatal("a silent Forward stream ended")
		}
		if err := link.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if _, err := one.Recv(); !errors.Is(err, context.Canceled) && !errors.Is(err, session.ErrClosed) {
			t.Errorf("the node's end: %v", err)
		}
		synctest.Wait()
		if ended.Load() != 1 {
			t.Error("the leader's end goes on")
		}
	})
}

// The port's orderly stop ends Forward streams with STOPPING.
func TestForwardStreamsEndWithThePort(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := peerPortOf(t, hears, takes, 0)
		_, link := dialForward(t, p)
		synctest.Wait()
		p.stop(t)
		if _, err := link.Recv(); !errors.Is(err, session.ErrStopping) {
			t.Errorf("ended with %v, want %v", err, session.ErrStopping)
		}
	})
}

// A cut connection is noticed by the node though nobody writes.
func TestACutForwardStreamIsNoticed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := peerPortOf(t, hears, takes, 0)
		defer p.stop(t)
		cut := &hole{}
		p.network.Cut = cut.wrap
		_, link := dialForward(t, p)
		synctest.Wait()
		cut.on.Store(true)
		begun := time.Now()
		_, err := link.Recv()
		if took := time.Since(begun); err == nil || took > 5*time.Second {
			t.Errorf("noticed after %v: %v", took, err)
		}
	})
}
