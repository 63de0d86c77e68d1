package peerport

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/dial"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/wire"
)

// followFunc is a function as a [Follower].
type followFunc func(context.Context, session.Hello, LeaderLink) error

func (f followFunc) Follow(ctx context.Context, h session.Hello, l LeaderLink) error {
	return f(ctx, h, l)
}

// peerRig is a peer port of cluster "c".
type peerRig struct {
	server  *Server
	network *porttest.Pipes
	log     *porttest.LogBuffer
	served  chan error
}

// peerPort starts a peer port that gives its streams to follow, for a test in a bubble. The test defers stop.
func peerPort(t *testing.T, follow followFunc) *peerRig {
	t.Helper()
	return boundedPeerPort(t, follow, 0)
}

// boundedPeerPort is peerPort with at most so many connections.
func boundedPeerPort(t *testing.T, follow followFunc, connections int) *peerRig {
	t.Helper()
	return peerPortOf(t, follow, nil, connections)
}

// forwarder returns f as a [Forwarder], nil without f.
func forwarder(f forwardFunc) Forwarder {
	if f == nil {
		return nil
	}
	return f
}

// peerPortOf is boundedPeerPort with Forward streams.
func peerPortOf(t *testing.T, follow followFunc, forward forwardFunc, connections int) *peerRig {
	t.Helper()
	p := &peerRig{network: porttest.NewPipes(), log: &porttest.LogBuffer{}, served: make(chan error, 1)}
	p.server = New(PeerConfig{
		ClusterID: "c", Member: func(n session.Node) bool {
			return n <= 5
		}, Logger: hclog.New(&hclog.LoggerOptions{Output: p.log}), MaxConnections: connections,
	}, follow, forwarder(forward))
	go func() { p.served <- p.server.Serve(p.network) }()
	return p
}

func (p *peerRig) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := p.server.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if err := <-p.served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if got := p.server.port.Stats().Connections; got != 0 {
		t.Errorf("%d connections left", got)
	}
}

func peerConfig(network *porttest.Pipes) dial.PeerConfig {
	return dial.PeerConfig{Address: "leader", ClusterID: "c", Dial: network.Dial}
}

func dialPeer(t *testing.T, network *porttest.Pipes) *dial.PeerLink {
	t.Helper()
	link, err := dial.Peer(t.Context(), peerConfig(network),
		session.Hello{Node: 2, Directory: 5, Incarnation: 3, Stream: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	return link
}

func welcome(l LeaderLink) error {
	return l.Send(session.LeaderMessage{Welcome: &session.Welcome{Term: 9, Leader: 1}})
}

// hears is a Follower that reads all messages of its learner. It returns no error, so that the port says why the stream
// ends.
func hears(_ context.Context, _ session.Hello, l LeaderLink) error {
	if err := welcome(l); err != nil {
		return err
	}
	for {
		if _, err := l.Recv(); err != nil {
			return nil //nolint:nilerr // the port must say why, although the Follower does not
		}
	}
}

func learnerMessages() []session.LearnerMessage {
	r, tok := session.RequestID{5}, porttest.Grant(9).Token
	labels := session.Labels{{Key: "a", Value: "b"}, {Key: "c"}}
	return []session.LearnerMessage{
		{Answer: &session.Answer{
			Round: 1, Term: 2, Attachment: 3, StallAge: time.Second, ProcessAge: time.Minute,
			Credit: 3 * time.Second, Touches: []byte{1, 2}, Last: true, Applied: 4,
			Digest: session.StateDigest{Index: 5, Digest: [16]byte{6}},
		}},
		{Answer: &session.Answer{Round: 1}},
		{Requests: []session.Request{{
			Seq: 1, Open: &session.OpenRequest{
				RequestID: r, Spec: session.Spec{Timeout: time.Second, Labels: labels}, MS: 77, Instance: 1 << 63,
			},
		}}},
		{Requests: []session.Request{{Seq: 2, Resume: &session.ResumeRequest{Token: tok, Instance: 1 << 63, Attempt: 2}}}},
		{Requests: []session.Request{{Seq: 3, Close: &tok}}},
		{Requests: []session.Request{{Seq: 4, Read: &session.ReadRequest{Remaining: []session.ID{1, 2}}}}},
		{Requests: []session.Request{{Seq: 5, Read: &session.ReadRequest{}}}},
		{Requests: []session.Request{{
			Seq: 7, Upgrade: &session.UpgradeRequest{
				ID: 1<<56 | 9, Spec: session.Spec{Timeout: time.Second, Labels: labels}, MS: 77,
				Instance: 1 << 63, Attempt: 2, Since: 5,
			},
		}}},
		{Requests: []session.Request{{Seq: 6, Claim: &session.ClaimRequest{MS: 77, Count: session.MaxClaim}}}},
	}
}

func leaderMessages() []session.LeaderMessage {
	return []session.LeaderMessage{
		{Heartbeat: &session.Heartbeat{
			Round: 5, Interval: time.Second, Good: 4, Confirmed: 3, RejectedTouches: []session.ID{8, 9}, Attachment: 7,
			VotesFrom: 9, Compare: 8, Committed: 10,
			Compared: session.Comparison{StateDigest: session.StateDigest{Index: 6, Digest: [16]byte{5}}, Agreed: true},
		}},
		{Heartbeat: &session.Heartbeat{Round: 6, Interval: time.Second, VotesFrom: session.NoVote}},
		{Heartbeat: &session.Heartbeat{
			Round: 7, Interval: time.Second, Compared: session.Comparison{StateDigest: session.StateDigest{Index: 6}},
		}},
		{Replies: []session.Reply{{Seq: 1, Term: 2, Index: 3, Session: porttest.Grant(9).Session, Repeated: true}}},
		{Replies: []session.Reply{{Seq: 1, Term: 2, Index: 3, First: 1<<56 | 9}}},
		{Replies: []session.Reply{{Seq: 1, Index: 3, Remaining: []time.Duration{wire.Unknown, 0, 5 * time.Second}}}},
		{Replies: []session.Reply{{Seq: 1, Err: session.ErrMoved}}},
		{Replies: []session.Reply{{Seq: 1, Err: &session.NotLeaderError{Leader: 2, Address: "x"}}}},
		{Replies: []session.Reply{{Seq: 1, Err: &session.FieldError{Field: "f", Limit: "l"}}}},
	}
}

func TestPeerMessagesArriveAsTheyWereSent(t *testing.T) {
	var hello session.Hello
	got := make(chan session.LearnerMessage, 100)
	follow := func(_ context.Context, h session.Hello, l LeaderLink) error {
		hello = h
		if err := welcome(l); err != nil {
			return err
		}
		for _, m := range leaderMessages() {
			if err := l.Send(m); err != nil {
				return err
			}
		}
		for range learnerMessages() {
			m, err := l.Recv()
			if err != nil {
				return err
			}
			got <- m
		}
		return &session.NotLeaderError{Leader: 3, Address: "n3"}
	}
	bubble.Test(t, func(t *testing.T) {
		p := peerPort(t, follow)
		defer p.stop(t)
		network := p.network
		link := dialPeer(t, network)
		first, err := link.Recv()
		if err != nil || first.Welcome == nil || *first.Welcome != (session.Welcome{Term: 9, Leader: 1}) {
			t.Fatalf("first came %+v, %v, want the welcome", first, err)
		}
		for _, want := range leaderMessages() {
			m, err := link.Recv()
			if err != nil || !sameLeaderMessage(m, want) {
				t.Errorf("got %+v (%+v), %v, want %+v", m, m.Replies, err, want)
			}
		}
		for _, want := range learnerMessages() {
			if err := link.Send(want); err != nil {
				t.Fatal(err)
			}
			if m := <-got; !reflect.DeepEqual(m, want) {
				t.Errorf("got %+v, want %+v", m, want)
			}
		}
		var leader *session.NotLeaderError
		if _, err := link.Recv(); !errors.As(err, &leader) || leader.Leader != 3 {
			t.Errorf("the stream ended with %v, want the leader's address", err)
		}
	})
	if want := (session.Hello{Node: 2, Directory: 5, Incarnation: 3, Stream: 4}); hello != want {
		t.Errorf("hello %+v, want %+v", hello, want)
	}
}

// sameLeaderMessage compares two messages, with their errors by kind and text.
func sameLeaderMessage(got, want session.LeaderMessage) bool {
	if len(got.Replies) != 1 || len(want.Replies) != 1 || want.Replies[0].Err == nil {
		return reflect.DeepEqual(got, want) //nolint:govet // deepequalerrors: no error is compared
	}
	one, other := got.Replies[0], want.Replies[0]
	return one.Err != nil && wire.Code(one.Err) == wire.Code(other.Err) && one.Err.Error() == other.Err.Error() &&
		one.Seq == other.Seq
}

func TestPeersOfOthersAreRefused(t *testing.T) {
	follow := func(context.Context, session.Hello, LeaderLink) error {
		t.Error("a refused peer was followed")
		return nil
	}
	bubble.Test(t, func(t *testing.T) {
		p := peerPort(t, follow)
		defer p.stop(t)
		network := p.network
		log := p.log
		other := peerConfig(network)
		other.ClusterID = "other"
		for range 3 {
			if _, err := dial.Peer(t.Context(), other, session.Hello{Node: 2}); !errors.Is(err,
				session.ErrWrongCluster) {
				t.Errorf("a node of another cluster: %v", err)
			}
		}
		if got := strings.Count(log.String(), "peer refused"); got != 1 {
			t.Errorf("%d log lines for 3 refusals, want 1: %s", got, log)
		}
		if _, err := dial.Peer(t.Context(), peerConfig(network), session.Hello{Node: 6}); !errors.Is(err,
			session.ErrWrongCluster) {
			t.Errorf("a node that is no member: %v", err)
		}
		if _, err := dial.Peer(t.Context(), peerConfig(network), session.Hello{}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("an invalid node number: %v", err)
		}
		other.ClusterID = strings.Repeat("x", 256)
		if _, err := dial.Peer(t.Context(), other, session.Hello{Node: 2}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("a long cluster id: %v", err)
		}
	})
}

func TestRepliesOfEndedContextsAreUnknown(t *testing.T) {
	for _, err := range []error{context.Canceled, fmt.Errorf("x: %w", context.DeadlineExceeded)} {
		r, convErr := wire.ReplyFrom(wire.ReplyProto(&session.Reply{Err: err}))
		if convErr != nil || !errors.Is(r.Err, session.ErrOutcomeUnknown) {
			t.Errorf("%v became %v, %v", err, r.Err, convErr)
		}
	}
	r, err := wire.ReplyFrom(wire.ReplyProto(&session.Reply{Err: errors.New("disk on fire")}))
	if err != nil || r.Err == nil || r.Err.Error() != "disk on fire" || wire.Code(r.Err) != codes.Internal {
		t.Errorf("an error outside the domain became %v, %v", r.Err, err)
	}
}

// plainConn is a connection to the port without a stream.
func plainConn(t *testing.T, network *porttest.Pipes) *grpc.ClientConn {
	t.Helper()
	conn, err := dial.Client("node", dial.Options{Dial: network.Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestAPeerPortThatNeverServedStops(t *testing.T) {
	if err := New(PeerConfig{}, nil, nil).Stop(t.Context()); err != nil {
		t.Errorf("Stop before Serve: %v", err)
	}
}
