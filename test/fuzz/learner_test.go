package fuzz

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/noraft"
	"holdfast/transport/dial"
	"holdfast/transport/peerport"
	"holdfast/transport/wire"
)

// peopled returns the sessions that exist. owned belongs to node 2, and only the script touches it. The other two
// belong to node 3: a client keeps alive alive, and nobody touches dead.
func peopled() (owned, alive, dead session.OpenSession) {
	owned = session.OpenSession{Node: 2, MS: 1, Spec: session.Spec{Timeout: shortest}, RequestID: session.RequestID{1}}
	alive = session.OpenSession{Node: 3, Spec: session.Spec{Timeout: shortest}, RequestID: session.RequestID{2}}
	dead = session.OpenSession{Node: 3, MS: 3, Spec: session.Spec{Timeout: shortest}, RequestID: session.RequestID{3}}
	return owned, alive, dead
}

// FuzzLearnerStream lets node 2 send anything to the leader after a good hello, as answers to heartbeats and as
// requests. The messages go over gRPC to the peer port and the tracker behind it. The live session of node 3 must stay
// alive, the dead one must end in time, and that of node 2 must end once node 2 is silent. The tracker must go on.
//
// A round or an attachment of 0 in an answer stands for that of the newest heartbeat: no fuzzer would guess it.
func FuzzLearnerStream(f *testing.F) {
	for _, script := range learnerScripts() {
		var b []byte
		for _, m := range script {
			b = appendMessage(f, b, m)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var script []*peerv1.LearnerMessage
		for _, part := range parts(b) {
			m := &peerv1.LearnerMessage{}
			if proto.Unmarshal(part, m) == nil && len(script) < 50 {
				script = append(script, m)
			}
		}
		ofMessages().Hold(t, len(b), func() {
			bubble.Test(t, func(t *testing.T) { hearLearner(t, script) })
		})
	})
}

// FuzzTouchBatch lets node 2 answer heartbeats with any bytes as touches, in two chunks cut anywhere, and with any
// attachment. The sessions must fare as in FuzzLearnerStream.
func FuzzTouchBatch(f *testing.F) {
	owned, dead := session.Touch{ID: 2<<56 | 1<<16}, session.Touch{ID: 3<<56 | 3<<16, Age: time.Hour}
	batch := session.AppendTouches(nil, []session.Touch{owned, dead})
	f.Add(batch, uint64(0), uint16(len(session.AppendTouches(nil, []session.Touch{owned}))))
	f.Add(batch, uint64(1<<63), uint16(3))
	many := make([]session.Touch, 2000) // of sessions that do not exist
	for i := range many {
		many[i].ID = session.ID(i+1) << 40
	}
	f.Add(session.AppendTouches(nil, many), uint64(2), uint16(0))
	f.Add(bytes.Repeat([]byte{3, 1, 0}, 1000), uint64(2), uint16(9))
	f.Fuzz(func(t *testing.T, batch []byte, attachment uint64, cut uint16) {
		at := min(int(cut), len(batch))
		var script []*peerv1.LearnerMessage
		for range 3 { // the second and the third answer repeat the touches of the first
			for i, chunk := range [][]byte{batch[:at], batch[at:]} {
				script = append(script, &peerv1.LearnerMessage{Message: &peerv1.LearnerMessage_Answer{Answer: &peerv1.Answer{
					Term: noraft.Term, Attachment: attachment, Touches: chunk, Last: i == 1,
				}}})
			}
		}
		ofMessages().Hold(t, len(batch), func() {
			bubble.Test(t, func(t *testing.T) { hearLearner(t, script) })
		})
	})
}

func learnerScripts() [][]*peerv1.LearnerMessage {
	answer := func(a *peerv1.Answer) *peerv1.LearnerMessage {
		return &peerv1.LearnerMessage{Message: &peerv1.LearnerMessage_Answer{Answer: a}}
	}
	touches := func(ids ...session.ID) []byte {
		var all []session.Touch
		for _, id := range ids {
			all = append(all, session.Touch{ID: id})
		}
		return session.AppendTouches(nil, all)
	}
	request := func(r *peerv1.Request) *peerv1.LearnerMessage {
		packed, err := proto.Marshal(&peerv1.Requests{Requests: []*peerv1.Request{r}})
		if err != nil {
			panic(err)
		}
		return &peerv1.LearnerMessage{Message: &peerv1.LearnerMessage_Requests{Requests: packed}}
	}
	owned, alive, dead := session.ID(2<<56|1<<16), session.ID(3<<56), session.ID(3<<56|3<<16)
	token := wire.TokenProto(tokenOf(session.Session{ID: owned, Attachment: 1}))
	open := &peerv1.OpenRequest{
		RequestId: append(make([]byte, 15), 7), Timeout: durationpb.New(time.Hour),
		Labels: []*peerv1.Label{{Key: "a"}},
	}
	insists := make([]*peerv1.LearnerMessage, 20) // they last longer than the session's timeout
	for i := range insists {
		insists[i] = answer(&peerv1.Answer{Term: noraft.Term, Touches: touches(owned, dead), Last: true, Attachment: 1 << 63})
	}
	return [][]*peerv1.LearnerMessage{
		insists,
		{
			answer(&peerv1.Answer{Term: noraft.Term, Touches: touches(owned), Last: true}),
			answer(&peerv1.Answer{Term: noraft.Term, Touches: touches(alive, dead), Last: true, Attachment: 1 << 63}),
			answer(&peerv1.Answer{Term: noraft.Term, Touches: touches(owned, dead, dead+1)}),
			answer(
				&peerv1.Answer{Term: noraft.Term + 1, Touches: touches(dead), Last: true, StallAge: durationpb.New(time.Hour)},
			),
		},
		{
			request(&peerv1.Request{Seq: 1, Body: &peerv1.Request_Open{Open: open}}),
			request(&peerv1.Request{Seq: 1, Body: &peerv1.Request_Open{Open: open}}),
			request(
				&peerv1.Request{
					Seq: 2, Body: &peerv1.Request_Resume{
						Resume: &peerv1.ResumeRequest{Token: token, Instance: 1, Attempt: 1},
					},
				},
			),
			answer(&peerv1.Answer{Term: noraft.Term, Last: true}),
			request(
				&peerv1.Request{
					Seq: 3, Body: &peerv1.Request_Read{Read: &peerv1.ReadRequest{Remaining: []uint64{uint64(dead), 5}}},
				},
			),
			request(&peerv1.Request{Seq: 4, Body: &peerv1.Request_Close{Close: &peerv1.CloseRequest{Token: token}}}),
			request(&peerv1.Request{Seq: 0, Body: &peerv1.Request_Close{Close: &peerv1.CloseRequest{Token: token}}}),
		},
		{
			answer(&peerv1.Answer{Term: noraft.Term, Touches: []byte{3, 0xff, 0xff, 0x03, 0, 1, 1, 0}, Last: true}),
			answer(&peerv1.Answer{Last: true}),
		},
		{answer(&peerv1.Answer{Round: 1 << 40, Last: true})},
		{request(&peerv1.Request{}), answer(&peerv1.Answer{})},
		{answer(&peerv1.Answer{StallAge: &durationpb.Duration{Seconds: 1 << 60}, Last: true})},
	}
}

// hearLearner runs the leader and node 3, and sends the script as node 2.
func hearLearner(t *testing.T, script []*peerv1.LearnerMessage) {
	t.Helper()
	owned, alive, dead := peopled()
	begun := time.Now()
	w := newWorld(t, noraft.Config{Voters: 3}, owned, dead)
	defer w.stop(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, n := range []session.Node{1, 3} {
		server := w.Serve(ctx, n)
		w.Follow(ctx, n, server)
		if n == 3 {
			sleep(3 * interval)
			honest := holds(t, server, alive)
			defer honest.stillHeld(t, w)
		}
	}
	network := newPipes()
	port := peerport.New(peerport.PeerConfig{ClusterID: "c", Logger: w.alarms.logger()}, follower{w}, nil)
	w.started.Go(func() { _ = port.Serve(network) })
	defer func() {
		t.Helper()
		bounded, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		if err := port.Stop(bounded); err != nil {
			t.Errorf("stop the peer port: %v", err)
		}
	}()
	speak(t, network, script)
	if _, lives := w.State().Session(3<<56 | 3<<16); lives && time.Since(begun) > shortest+shortest/200+4*interval {
		t.Errorf("the session that nobody touches lives after %v", time.Since(begun))
	}

	// Node 2 is silent now. Its session, and those that the script opened, end within the longest timeout.
	sleep(longest + longest/200 + 4*interval)
	if first, ok := w.State().Session(2<<56 | 1<<16); ok {
		t.Errorf("the session of the silent node 2 lives: %+v", first)
	}
	if n := w.State().Sessions(); n != 1 {
		t.Errorf("%d sessions are left, want 1: the live session of node 3", n)
	}
}

// follower passes the streams of the peer port to the tracker.
type follower struct{ w *world }

func (f follower) Follow(ctx context.Context, h session.Hello, l peerport.LeaderLink) error {
	return f.w.Tracker().Follow(ctx, h, l)
}

// speak sends the script as node 2. It returns when the leader has ended the stream, or when the leader has taken in
// the last message.
func speak(t *testing.T, network *pipes, script []*peerv1.LearnerMessage) {
	t.Helper()
	conn, err := dial.Client("leader", dial.Options{Dial: network.dial})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := peerv1.NewPeerServiceClient(conn).Follow(ctx)
	if err != nil {
		t.Fatal(err)
	}
	hello := &peerv1.Hello{Format: session.PeerFormat, ClusterId: "c", Node: 2, Incarnation: 1, Stream: 1}
	if err := stream.Send(&peerv1.LearnerMessage{Message: &peerv1.LearnerMessage_Hello{Hello: hello}}); err != nil {
		t.Fatal(err)
	}
	beats, over := make(chan *peerv1.Heartbeat, 1), make(chan struct{})
	go func() {
		defer close(over)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			if beat := m.GetHeartbeat(); beat != nil {
				select {
				case beats <- beat:
				case <-ctx.Done():
				}
			}
		}
	}()
	defer func() { cancel(); <-over }()
	var beat *peerv1.Heartbeat
	for _, m := range script {
		if a := m.GetAnswer(); a != nil {
			if beat == nil {
				select {
				case beat = <-beats:
				case <-over:
					return
				}
			}
			if a.GetRound() == 0 {
				a.Round = beat.GetRound()
			}
			if a.GetAttachment() == 0 {
				a.Attachment = beat.GetAttachment()
			}
			if a.GetLast() {
				beat = nil
			}
		}
		if err := stream.Send(m); errors.Is(err, io.EOF) {
			return
		}
		synctest.Wait()
	}
}
