package fuzz

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/dial"
)

// FuzzLeaderStream lets a leader say anything to a node after a good welcome, while clients of the node wait for what
// they asked: over gRPC, to the relay and the server behind it. Whatever it says, every client is answered, no session
// is served that the node's own state does not give to it, no promise is longer than the session's timeout, and the
// node then follows another leader.
//
// A seq of 0 in a reply stands for the oldest request that has no reply yet.
func FuzzLeaderStream(f *testing.F) {
	for _, script := range leaderScripts() {
		var b []byte
		for _, m := range script {
			b = appendMessage(f, b, m)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var script []*peerv1.LeaderMessage
		for _, part := range parts(b) {
			m := &peerv1.LeaderMessage{}
			if proto.Unmarshal(part, m) == nil && len(script) < 50 {
				script = append(script, m)
			}
		}
		ofMessages().Hold(t, len(b), func() {
			bubble.Test(t, func(t *testing.T) { hearLeader(t, script) })
		})
	})
}

func leaderScripts() [][]*peerv1.LeaderMessage {
	beat := func(h *peerv1.Heartbeat) *peerv1.LeaderMessage {
		return &peerv1.LeaderMessage{Message: &peerv1.LeaderMessage_Heartbeat{Heartbeat: h}}
	}
	reply := func(r *peerv1.Reply) *peerv1.LeaderMessage {
		return &peerv1.LeaderMessage{Message: &peerv1.LeaderMessage_Reply{Reply: r}}
	}
	detail := func(reason holdfastv1.Reason) *holdfastv1.ErrorDetail { return &holdfastv1.ErrorDetail{Reason: reason} }
	hers := &holdfastv1.Session{Id: 1<<56 | 1<<16, Timeout: durationpb.New(shortest), Owner: 1, Attachment: 1}
	invented := &holdfastv1.Session{Id: 1<<56 | 9<<16, Timeout: durationpb.New(time.Hour), Owner: 1, Attachment: 99}
	return [][]*peerv1.LeaderMessage{
		{
			beat(&peerv1.Heartbeat{Round: 1, Attachment: 2}),
			beat(&peerv1.Heartbeat{Round: 2, Good: 1, Confirmed: 1, NotTaken: []uint64{1<<56 | 1<<16}}),
		},
		{
			reply(&peerv1.Reply{Term: term, Index: 2, Session: hers}),
			reply(&peerv1.Reply{Term: term, Index: 1, Session: hers, Repeated: true}),
		},
		{
			reply(&peerv1.Reply{Term: term, Index: 1, Session: invented}),
			reply(&peerv1.Reply{Index: 1 << 60, Session: hers}),
		},
		{
			reply(&peerv1.Reply{Error: detail(holdfastv1.Reason_REASON_SESSION_EXPIRED)}),
			reply(&peerv1.Reply{Error: detail(99), Message: "x"}), reply(&peerv1.Reply{Seq: 77}),
		},
		{
			beat(&peerv1.Heartbeat{Round: 3, Good: 1 << 63, Confirmed: 1 << 63, Attachment: 1 << 63}),
			beat(&peerv1.Heartbeat{Round: 2}), beat(&peerv1.Heartbeat{}),
		},
		{{Message: &peerv1.LeaderMessage_Welcome{Welcome: &peerv1.Welcome{Term: 1, Leader: 2}}}, {}},
		{reply(&peerv1.Reply{RemainingMs: make([]int64, 1001)})},
	}
}

// hearLeader is one life of node 1 under the leader that the fuzzer is, and then under the tracker.
func hearLeader(t *testing.T, script []*peerv1.LeaderMessage) {
	t.Helper()
	first, other := given()
	w := newWorld(t, 1, first, other)
	defer w.stop()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := w.learner(ctx, 1)
	network, liar := newPipes(), &liar{script: script}
	grpcServer := grpc.NewServer(grpc.WaitForHandlers(true))
	peerv1.RegisterPeerServiceServer(grpcServer, liar)
	w.ended.Go(func() { _ = grpcServer.Serve(network) })
	defer grpcServer.Stop()
	link, err := dial.Peer(ctx, dial.PeerConfig{Address: "leader", ClusterID: "c", Dial: network.dial},
		session.Hello{Node: 1, Incarnation: 1, Stream: 1})
	if err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	w.ended.Go(func() {
		if err := server.Follow(link); err == nil {
			t.Error("a stream that ended did so without a reason")
		}
		_ = link.Close()
	})
	synctest.Wait()
	k := key()
	for i := range byte(4) {
		clients.Go(func() { asks(t, w, server, i, k.Credential(1<<56|1<<16)) })
	}
	sleep(10 * time.Second) // the node has had time to hear it all, and to be in jeopardy
	_ = link.Close()
	clients.Wait()

	synctest.Wait() // a relay has one stream at a time
	w.follow(ctx, 1, server)
	sleep(3 * interval)
	if err := server.Ready(); err != nil {
		t.Errorf("under a good leader the node is not ready: %v", err)
	}
	honest := holds(t, server, session.OpenSession{Timeout: shortest, RequestID: session.RequestID{50}})
	sleep(2 * shortest)
	honest.stillHeld(t, w)
}

// asks is one client: it opens or resumes, touches and closes, each for a bounded time.
func asks(t *testing.T, w *world, server session.Service, n byte, credential session.Credential) {
	t.Helper()
	conn, err := server.Connect(nothingHeard{})
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Disconnect()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	begun := time.Now()
	var grant session.Grant
	if n%2 == 0 {
		grant, err = conn.Open(ctx, session.OpenRequest{RequestID: session.RequestID{100 + n}, Timeout: shortest})
	} else {
		grant, err = conn.Resume(ctx, session.ResumeRequest{
			Token: session.Token{ID: 1<<56 | 1<<16, Credential: credential, Attachment: 1}, Instance: uint64(n),
			Attempt: 1,
		})
	}
	if errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 15*time.Second {
		t.Errorf("client %d was answered after %v: %v", n, time.Since(begun), err)
	}
	if err != nil {
		return
	}
	now, ok := w.state.Session(grant.Session.ID)
	served := grant.Session.Owner == 1
	if served && (!ok || now.Attachment != grant.Session.Attachment) || grant.SafeFor >= grant.Session.Timeout {
		t.Errorf("granted is %+v, and the state has %+v, %v", grant, now, ok)
	}
	if touched := conn.Touch(nil); touched.SafeFor >= longest && served && now.Timeout < longest {
		t.Errorf("safe for %v with a timeout of %v", touched.SafeFor, now.Timeout)
	}
	_ = conn.Close(ctx, grant.Token) // what the leader makes of it is its own affair
}

// nothingHeard ignores what a connection is told.
type nothingHeard struct{}

func (nothingHeard) Gone(session.Certificate)                {}
func (nothingHeard) Moved(session.ID, uint64, uint64)        {}
func (nothingHeard) MovedLocally(session.ID, uint64, uint64) {}
func (nothingHeard) Jeopardy(time.Time, []string)            {}
func (nothingHeard) JeopardyEnded()                          {}

// liar is a leader's peer port that says the script.
type liar struct {
	peerv1.UnimplementedPeerServiceServer
	script []*peerv1.LeaderMessage
}

func (l *liar) Follow(stream peerv1.PeerService_FollowServer) error {
	welcome := &peerv1.Welcome{Term: term - 1, Leader: 2}
	if err := stream.Send(&peerv1.LeaderMessage{Message: &peerv1.LeaderMessage_Welcome{Welcome: welcome}}); err != nil {
		return err
	}
	asked := make(chan uint64, 100)
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			if r := m.GetRequest(); r != nil {
				select {
				case asked <- r.GetSeq():
				default: // more than any script answers
				}
			}
		}
	}()
	for _, m := range l.script {
		if r := m.GetReply(); r != nil && r.GetSeq() == 0 {
			select {
			case r.Seq = <-asked:
			case <-time.After(interval):
			case <-stream.Context().Done():
				return nil
			}
		} else {
			sleep(interval / 4)
		}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}
