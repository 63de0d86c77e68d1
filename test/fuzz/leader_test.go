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
	"holdfast/test/noraft"
	"holdfast/transport/dial"
)

// FuzzLeaderStream lets a leader send anything to a node after a good welcome, while clients of the node wait for
// answers. The messages go over gRPC to the relay and the server behind it. The node must answer every client, serve no
// session that its own state does not give to it, promise less than each session's timeout, and then follow another
// leader.
//
// A seq of 0 in a reply stands for the seq of the oldest request without a reply.
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
		h.Interval = durationpb.New(interval)
		return &peerv1.LeaderMessage{Message: &peerv1.LeaderMessage_Heartbeat{Heartbeat: h}}
	}
	reply := func(r *peerv1.Reply) *peerv1.LeaderMessage {
		packed, err := proto.Marshal(&peerv1.Replies{Replies: []*peerv1.Reply{r}})
		if err != nil {
			panic(err)
		}
		return &peerv1.LeaderMessage{Message: &peerv1.LeaderMessage_Replies{Replies: packed}}
	}
	detail := func(reason holdfastv1.Reason) *holdfastv1.ErrorDetail { return &holdfastv1.ErrorDetail{Reason: reason} }
	known := &holdfastv1.Session{Id: 1<<56 | 1<<16, Timeout: durationpb.New(shortest), Owner: 1, Attachment: 1}
	invented := &holdfastv1.Session{Id: 1<<56 | 9<<16, Timeout: durationpb.New(time.Hour), Owner: 1, Attachment: 99}
	return [][]*peerv1.LeaderMessage{
		{
			beat(&peerv1.Heartbeat{Round: 1, Attachment: 2}),
			beat(&peerv1.Heartbeat{Round: 2, Good: 1, Confirmed: 1, RejectedTouches: []uint64{1<<56 | 1<<16}}),
		},
		{
			reply(&peerv1.Reply{Term: noraft.Term, Index: 2, Session: known}),
			reply(&peerv1.Reply{Term: noraft.Term, Index: 1, Session: known, Repeated: true}),
		},
		{
			reply(&peerv1.Reply{Term: noraft.Term, Index: 1, Session: invented}),
			reply(&peerv1.Reply{Index: 1 << 60, Session: known}),
		},
		{
			reply(&peerv1.Reply{Error: detail(holdfastv1.Reason_REASON_SESSION_EXPIRED)}),
			reply(&peerv1.Reply{Error: detail(99), Message: "x"}), reply(&peerv1.Reply{Seq: 77}),
		},
		{
			beat(&peerv1.Heartbeat{Round: 3, Good: 1 << 63, Confirmed: 1 << 63, Attachment: 1 << 63}),
			beat(&peerv1.Heartbeat{Round: 2}), beat(&peerv1.Heartbeat{}),
		},
		{{Message: &peerv1.LeaderMessage_Welcome{Welcome: &peerv1.Welcome{Format: session.PeerFormat, Term: 1, Leader: 2}}}, {}},
		{reply(&peerv1.Reply{RemainingMs: make([]int64, 1001)})},
	}
}

// hearLeader runs node 1 under a leader that sends the script, and then under the tracker.
func hearLeader(t *testing.T, script []*peerv1.LeaderMessage) {
	t.Helper()
	first, other := given()
	w := newWorld(t, noraft.Config{Voters: 1}, first, other)
	defer w.stop(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := w.Serve(ctx, 1)
	network := newPipes()
	grpcServer := grpc.NewServer(grpc.WaitForHandlers(true))
	peerv1.RegisterPeerServiceServer(grpcServer, &scripted{script: script})
	w.started.Go(func() { _ = grpcServer.Serve(network) })
	defer grpcServer.Stop()
	link, err := dial.Peer(ctx, dial.PeerConfig{Address: "leader", ClusterID: "c", Dial: network.dial},
		session.Hello{Node: 1, Incarnation: 1, Stream: 1})
	if err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	w.started.Go(func() {
		if err := server.Follow(link); err == nil {
			t.Error("the stream to the scripted leader ended without an error")
		}
		_ = link.Close()
	})
	synctest.Wait()
	for i := range byte(4) {
		clients.Go(func() { asks(t, w, server, i) })
	}
	sleep(10 * time.Second) // the node hears the whole script, and is in jeopardy meanwhile
	_ = link.Close()
	clients.Wait()

	synctest.Wait() // until the stream is over: a learner has one at a time
	w.Follow(ctx, 1, server)
	sleep(3 * interval)
	if err := server.Ready(); err != nil {
		t.Errorf("the node follows the tracker and is not ready: %v", err)
	}
	honest := holds(t, server, session.OpenSession{
		Spec:      session.Spec{Timeout: shortest},
		RequestID: session.RequestID{50},
	})
	sleep(2 * shortest)
	honest.stillHeld(t, w)
}

// asks is client n: it opens or resumes, touches and closes. Each request ends within a bounded time.
func asks(t *testing.T, w *world, server session.Service, n byte) {
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
		grant, err = conn.Open(ctx, session.OpenRequest{
			RequestID: session.RequestID{100 + n},
			Spec:      session.Spec{Timeout: shortest},
		})
	} else {
		grant, err = conn.Resume(ctx, session.ResumeRequest{
			Token: tokenOf(session.Session{ID: 1<<56 | 1<<16, Attachment: 1}), Instance: uint64(n), Attempt: 1,
		})
	}
	if errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 15*time.Second {
		t.Errorf("client %d is answered after %v: %v; want 15s at most", n, time.Since(begun), err)
	}
	if err != nil {
		return
	}
	now, ok := w.State().Session(grant.Session.ID)
	served := grant.Session.Owner == 1
	if served && (!ok || now.Attachment != grant.Session.Attachment) || grant.SafeFor >= grant.Session.Timeout {
		t.Errorf("client %d is granted %+v, and the state has %+v (exists: %v)", n, grant, now, ok)
	}
	if touched := conn.Touch(nil); touched.SafeFor >= longest && served && now.Timeout < longest {
		t.Errorf("client %d is promised %v with a timeout of %v", n, touched.SafeFor, now.Timeout)
	}
	_ = conn.Close(ctx, grant.Token) // the leader may answer anything
}

// nothingHeard ignores every event of a connection.
type nothingHeard struct{}

func (nothingHeard) Gone(session.Certificate)                {}
func (nothingHeard) Moved(session.ID, uint64, uint64)        {}
func (nothingHeard) MovedLocally(session.ID, uint64, uint64) {}
func (nothingHeard) Jeopardy(time.Time, []string)            {}
func (nothingHeard) JeopardyEnded()                          {}
func (nothingHeard) Draining(*session.DrainingError)         {}
func (nothingHeard) DrainingEnded()                          {}
func (nothingHeard) DrainTimeout()                           {}

// scripted is the peer port of a leader that sends a script.
type scripted struct {
	peerv1.UnimplementedPeerServiceServer
	script []*peerv1.LeaderMessage
}

func (s *scripted) Follow(stream peerv1.PeerService_FollowServer) error {
	welcome := &peerv1.Welcome{Format: session.PeerFormat, Term: noraft.Term - 1, Leader: 2}
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
			var all peerv1.Requests
			if proto.Unmarshal(m.GetRequests(), &all) != nil {
				continue
			}
			for _, r := range all.GetRequests() {
				select {
				case asked <- r.GetSeq():
				default: // no script has so many replies
				}
			}
		}
	}()
	for _, m := range s.script {
		var all peerv1.Replies
		if packed := m.GetReplies(); len(packed) > 0 && proto.Unmarshal(packed, &all) == nil &&
			all.GetReplies()[0].GetSeq() == 0 {
			select {
			case all.Replies[0].Seq = <-asked:
			case <-time.After(interval):
			case <-stream.Context().Done():
				return nil
			}
			packed, err := proto.Marshal(&all)
			if err != nil {
				return err
			}
			m = &peerv1.LeaderMessage{Message: &peerv1.LeaderMessage_Replies{Replies: packed}}
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
