package unary

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"holdfast/client/internal/route"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/wire"
)

// newNodes returns nodes a:1, b:1 and c:1. Nothing listens there: the calls of these tests send nothing.
func newNodes(t *testing.T) *Nodes {
	t.Helper()
	n := New(Config{
		Attempt: time.Second, Hedge: 100 * time.Millisecond, ReadOnly: true,
		Jitter: route.NewJitter(rand.NewPCG(1, 2), time.Millisecond, time.Second),
		Demand: func() uint64 { return 10 }, OnState: func(session.NodeState) {}, Connected: func() string { return "" },
	}, []string{"a:1", "b:1", "c:1"})
	t.Cleanup(n.Close)
	return n
}

// A read refuses an older state from a node that ignores the seen index.
func TestN4OlderAnswersAreRefused(t *testing.T) {
	for _, tt := range []struct {
		state session.NodeState
		want  error
	}{
		{session.NodeState{}, session.ErrLagging}, // an answer without a state
		{session.NodeState{Node: 1, Mode: session.ModeReadOnly, Index: 9}, session.ErrLagging},
		{session.NodeState{Node: 1, Mode: session.ModeReadWrite, Index: 10}, nil},
	} {
		if err := notOlder(tt.state, 10); !errors.Is(err, tt.want) ||
			route.Classify(err) == route.Final != (tt.want == nil) {
			t.Errorf("%+v after index 10: got %v, want %v", tt.state, err, tt.want)
		}
	}
}

// A local session is never too old, because its node alone decides about it.
func TestN4LocalAnswersAreNeverTooOld(t *testing.T) {
	for _, tt := range []struct {
		local bool
		want  error
	}{{true, nil}, {false, session.ErrLagging}} {
		r := &reading[int]{
			nodes: newNodes(t),
			query: func(context.Context, *grpc.ClientConn, session.ReadOptions) (Answer[int], error) {
				state := wire.StateProto(session.NodeState{Node: 1, Mode: session.ModeReadWrite, Index: 5})
				return Answer[int]{State: state, Local: tt.local}, nil
			},
		}
		if a := r.once(t.Context(), nil); !errors.Is(a.err, tt.want) {
			t.Errorf("answer with local %v: got %v, want %v", tt.local, a.err, tt.want)
		}
	}
}

// visits returns a call that notes the connections it is made over, and answers with err.
func visits(err func(target string) error) (call Call, targets *[]string) {
	targets = new([]string)
	return func(_ context.Context, cc *grpc.ClientConn) error {
		*targets = append(*targets, cc.Target())
		return err(cc.Target())
	}, targets
}

// A round asks the server that answered last first.
func TestTheServerThatAnsweredLastComesFirst(t *testing.T) {
	n := newNodes(t)
	call, targets := visits(func(target string) error {
		if target == "passthrough:///b:1" {
			return nil
		}
		return status.Error(codes.Unavailable, "down")
	})
	for range 2 {
		if err := n.Any(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"passthrough:///a:1", "passthrough:///b:1", "passthrough:///b:1"}
	if !slices.Equal(*targets, want) {
		t.Errorf("asked %q, want %q", *targets, want)
	}
	if got, want := n.Servers(), []string{"a:1", "b:1", "c:1"}; !slices.Equal(got, want) {
		t.Errorf("configured servers: got %q, want %q", got, want)
	}
}

// Calls keep one connection for each address, until Close.
func TestOneConnectionForEachAddress(t *testing.T) {
	n := newNodes(t)
	first, err := n.acquire("a:1")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := n.acquire("a:1"); err != nil || again != first {
		t.Errorf("got another connection, %v", err)
	}
	n.Close()
	call, targets := visits(func(string) error { return nil })
	if err := n.At(t.Context(), "a:1", call); !errors.Is(err, session.ErrClosed) || len(*targets) > 0 {
		t.Errorf("after Close: got %v, %d calls", err, len(*targets))
	}
}

// Connections to addresses that are neither servers nor learnt any more are closed, but none under a call.
func TestConnectionsToForgottenAddressesAreClosed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNodes(t)
		conns := map[string]*grpc.ClientConn{}
		call := func(address string, during func()) {
			t.Helper()
			if err := n.At(t.Context(), address, func(_ context.Context, cc *grpc.ClientConn) error {
				conns[address] = cc
				during()
				return nil
			}); err != nil {
				t.Errorf("%s: %v", address, err)
			}
		}
		idle := func() {}
		expect := func(when string, open ...string) {
			t.Helper()
			synctest.Wait()
			for address, cc := range conns {
				if is, want := cc.GetState() != connectivity.Shutdown, slices.Contains(open, address); is != want {
					t.Errorf("%s: the connection to %s is open: %v, want %v", when, address, is, want)
				}
			}
		}
		n.SetLearnt([]string{"d:1"})
		for _, address := range []string{"a:1", "b:1", "d:1", "other:1"} {
			call(address, idle)
		}
		expect("before a change", "a:1", "b:1", "d:1", "other:1")
		n.SetServers([]string{"a:1"})
		expect("other servers", "a:1", "d:1")
		call("d:1", func() {
			n.SetLearnt([]string{"e:1"})
			expect("during a call", "a:1", "d:1")
			call("d:1", idle)
			expect("after one of two calls", "a:1", "d:1")
		})
		expect("after both calls", "a:1")
		former := conns["d:1"]
		if call("d:1", idle); conns["d:1"] == former {
			t.Error("a call was made over a closed connection")
		}
		call("a:1", func() {
			n.SetServers([]string{"b:1"})
			n.SetServers([]string{"a:1"})
		})
		expect("listed again", "a:1")
		call("a:1", func() {
			n.SetServers([]string{"b:1"})
			n.Close()
		})
		expect("closed during a call")
	})
}

// Reads begin at a read-only node for two seconds after its answer.
func TestTrustEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := New(Config{}, []string{"a:1"})
		n.trust("a:1")
		timer := time.NewTimer(TrustFor - 1)
		<-timer.C
		if got := n.trustedNode(); got != "a:1" {
			t.Errorf("1 ns before the end: got %q", got)
		}
		timer.Reset(1)
		<-timer.C
		if got := n.trustedNode(); got != "" {
			t.Errorf("at the end: got %q", got)
		}
	})
}

// The error of a call at one node says whether the node answered.
func TestErrorsOfOneNode(t *testing.T) {
	n := newNodes(t)
	for name, tt := range map[string]struct{ err, want error }{
		"no connection":   {status.Error(codes.Unavailable, "down"), route.ErrUnreachable},
		"no answer":       {status.Error(codes.DeadlineExceeded, "late"), route.ErrSlow},
		"a domain error":  {session.ErrNoLeader, session.ErrNoLeader},
		"unknown outcome": {session.ErrOutcomeUnknown, session.ErrOutcomeUnknown},
	} {
		call, _ := visits(func(string) error { return tt.err })
		if err := n.At(t.Context(), "a:1", call); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
}

// The outcome of a write is unknown once a node was sent the request and did not answer.
func TestOutcome(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	sent := &peer.Peer{Addr: addr{}}
	lost := status.Error(codes.Unavailable, "connection is lost")
	for name, tt := range map[string]struct {
		node    *peer.Peer
		err     error
		unknown bool
	}{
		"sent and not answered":   {sent, lost, true},
		"never sent":              {&peer.Peer{}, lost, false},
		"refused":                 {sent, status.Error(codes.InvalidArgument, "no"), false},
		"unknown to its own node": {&peer.Peer{}, session.ErrOutcomeUnknown, true},
	} {
		var o Outcome
		o.Refused(tt.node, tt.err)
		o.Refused(&peer.Peer{}, session.ErrNoLeader) // of a later node
		if got := errors.Is(o.End(ended, lost), session.ErrOutcomeUnknown); got != tt.unknown {
			t.Errorf("%s: got unknown %v, want %v", name, got, tt.unknown)
		}
		if err := o.End(t.Context(), lost); !errors.Is(err, lost) || errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("%s, before ctx ends: got %v", name, err)
		}
	}
}

// addr is an address of a node.
type addr struct{}

// Network returns the name of the network.
func (addr) Network() string { return "tcp" }

// String returns the address.
func (addr) String() string { return "a:1" }
