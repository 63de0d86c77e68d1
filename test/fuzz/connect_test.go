package fuzz

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/noraft"
	"holdfast/transport/clientport"
	"holdfast/transport/dial"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// given returns the sessions that exist before the fuzzer's client connects. The fuzzer's client knows the token of the
// first session. Only the honest client knows the token of the other.
func given() (first, other session.OpenSession) {
	first = session.OpenSession{Node: 1, MS: 1, Spec: session.Spec{Timeout: shortest}, RequestID: session.RequestID{1}}
	other = session.OpenSession{Node: 1, Spec: session.Spec{Timeout: shortest}, RequestID: session.RequestID{2}}
	return first, other
}

// FuzzConnect lets a client send anything on its connection to the node that leads. The messages go the whole way:
// gRPC, handler, learner, tracker, state. The node must answer every message once and within a minute, keep the session
// of another client as it is, and go on serving.
func FuzzConnect(f *testing.F) {
	for _, script := range connectScripts() {
		var b []byte
		for _, m := range script {
			b = appendMessage(f, b, m)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var script []*holdfastv1.ClientMessage
		for _, part := range parts(b) {
			m := &holdfastv1.ClientMessage{}
			if proto.Unmarshal(part, m) == nil {
				script = append(script, m)
			}
		}
		ofMessages().Hold(t, len(b), func() {
			bubble.Test(t, func(t *testing.T) { connect(t, script) })
		})
	})
}

// connectScripts are the seeds: conversations whose first message, at least, makes sense.
func connectScripts() [][]*holdfastv1.ClientMessage {
	open := func(seq uint64, request byte, labels map[string]string) *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Open{Open: &holdfastv1.Open{
			Seq: seq, Timeout: durationpb.New(time.Second), RequestId: append(make([]byte, 15), request),
			Labels: labels,
		}}}
	}
	first := session.Session{ID: 1<<56 | 1<<16, Attachment: 1}
	token := wire.TokenProto(tokenOf(first))
	resume := func(seq, instance, attempt uint64) *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Resume{Resume: &holdfastv1.Resume{
			Seq: seq, Token: token, Instance: instance, Attempt: attempt,
		}}}
	}
	many := func(seq, instance uint64, ids ...uint64) *holdfastv1.ClientMessage {
		r := &holdfastv1.ResumeSessions{Seq: seq, Instance: instance, Ids: ids}
		for _, id := range ids {
			t := tokenOf(session.Session{ID: session.ID(id), Attachment: 1})
			r.Credentials = append(r.Credentials, t.Credential[:]...)
			r.Attachments, r.Attempts = append(r.Attachments, 1), append(r.Attempts, seq)
		}
		return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_ResumeSessions{ResumeSessions: r}}
	}
	touch := func(seq uint64, ids ...uint64) *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{
			Message: &holdfastv1.ClientMessage_Touch{Touch: &holdfastv1.Touch{Seq: seq, Ids: ids}},
		}
	}
	end := func(seq uint64) *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{
			Message: &holdfastv1.ClientMessage_Close{Close: &holdfastv1.Close{Seq: seq, Token: token}},
		}
	}
	seen := resume(2, 5, 1)
	seen.GetResume().SeenIndex = 1 // an index that the node has applied; ahead names one that it never will
	ahead := resume(3, 5, 2)
	ahead.GetResume().SeenIndex = 1 << 63
	id := uint64(first.ID)
	local := tokenOf(session.Session{ID: first.ID + 1, Attachment: 1})
	local.Local = true
	openLocal := open(1, 9, nil)
	openLocal.GetOpen().Local = true
	upgrade := func(seq uint64, t session.Token) *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{
			Message: &holdfastv1.ClientMessage_Upgrade{
				Upgrade: &holdfastv1.Upgrade{Seq: seq, Token: wire.TokenProto(t)},
			},
		}
	}
	endLocal, resumeLocal := end(6), resume(5, 7, 1)
	endLocal.GetClose().Token, resumeLocal.GetResume().Token = wire.TokenProto(local), wire.TokenProto(local)
	batch := func(requests ...*holdfastv1.ClientMessage) *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{
			Message: &holdfastv1.ClientMessage_Batch{Batch: &holdfastv1.Batch{Requests: requests}},
		}
	}
	return [][]*holdfastv1.ClientMessage{
		{
			batch(open(1, 9, nil), open(2, 9, nil), touch(3), resume(4, 5, 1), many(5, 5, id)), touch(6),
			batch(touch(7, id), end(8), end(9)),
		},
		treeScript(id, resume(1, 5, 1), batch),
		{batch(), batch(batch(touch(1)), touch(2), open(0, 1, nil), upgrade(3, local)), batch(openLocal, endLocal)},
		{open(1, 9, map[string]string{"a": "b"}), open(2, 9, nil), touch(3), open(3, 1, nil)},
		{
			resume(1, 5, 1), touch(2, id, id, id+1), resume(3, 5, 1), resume(4, 6, 1), resume(5, 5, 0), end(6), touch(7),
			resume(8, 5, 2),
		},
		{touch(1), seen, ahead, resume(4, 5, 3)},
		{
			many(1, 5, id, id+1), many(2, 5, id), many(3, 6, id), touch(4, id), many(5, 5, id, id), many(6, 5),
			many(7, 5, uint64(local.ID)), end(8),
		},
		{end(1), end(1), touch(1, id), {}, touch(0), open(0, 0, nil)},
		{openLocal, touch(2), upgrade(3, local), upgrade(4, local), touch(7), endLocal, touch(8)},
		{
			openLocal, resumeLocal, upgrade(3, local), endLocal, touch(7, uint64(local.ID)), upgrade(8, tokenOf(first)),
			upgrade(0, local),
		},
		{
			touch(1, 0), touch(2, make([]uint64, 3000)...),
			open(1<<63, 200, map[string]string{"": "", "x": string(make([]byte, 2000))}),
		},
	}
}

// treeScript is a conversation about the tree. The cluster has none: the state machine here knows sessions alone. The
// node refuses each request, and answers it all the same.
func treeScript(id uint64, resume *holdfastv1.ClientMessage,
	batch func(...*holdfastv1.ClientMessage) *holdfastv1.ClientMessage,
) []*holdfastv1.ClientMessage {
	write := func(seq, of, number uint64, path string) *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Write{Write: wire.WriteProto(seq,
			tree.NumberedWrite{Session: of, Number: number, Transaction: tree.Transaction{
				Then: []tree.Op{tree.Create{Path: path, Kind: tree.Ephemeral}},
			}})}}
	}
	read := func(seq, of uint64, path string) *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Read{Read: wire.QueryProto(seq,
			tree.Query{Kind: tree.ListChildren, Path: path, Session: of, Watch: true})}}
	}
	watches := []tree.WatchSpec{{Path: "/a", Kind: tree.WatchRecursive}}
	add := &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_AddWatches{
		AddWatches: wire.AdditionProto(7, tree.Addition{Watches: watches, Since: 1 << 62}),
	}}
	remove := &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_RemoveWatches{
		RemoveWatches: wire.RemovalProto(8, watches),
	}}
	acked := &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Touch{Touch: &holdfastv1.Touch{
		Seq: 9, AckedIds: []uint64{id, id + 1}, Acked: []uint64{1, 1 << 63},
	}}}
	return []*holdfastv1.ClientMessage{
		resume,
		batch(write(2, id, 1, "/a"), write(3, id, 2, "a"), read(4, id, "/"), read(5, 0, "/"), write(6, 0, 0, "")),
		add, remove, acked, write(10, id+1, 1, "/a"), read(11, 1<<63, "//"),
	}
}

// connect runs a node with two clients: the fuzzer's, and an honest one.
func connect(t *testing.T, script []*holdfastv1.ClientMessage) {
	t.Helper()
	first, other := given()
	w := newWorld(t, noraft.Config{Voters: 1, Local: true}, first)
	defer w.stop(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := w.Serve(ctx, 1)
	w.Follow(ctx, 1, server)
	network := newPipes()
	port := clientport.New(clientport.Config{Logger: w.alarms.logger()}, server, noCluster{})
	w.started.Go(func() { _ = port.Serve(network) })
	defer func() {
		t.Helper()
		bounded, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		if err := port.Stop(bounded); err != nil {
			t.Errorf("stop the client port: %v", err)
		}
		if got := port.Stats(); got.Panics != 0 || got.Connections != 0 || got.Streams != 0 || got.Sessions != 0 {
			t.Errorf("the stopped client port has left %+v, want no panics, connections, streams or sessions", got)
		}
	}()

	sleep(3 * interval) // until a round is good: before, the node promises nothing
	honest := holds(t, server, other)
	said := talk(t, network, script)
	counted(t, script, said)
	honest.stillHeld(t, w)
}

// talk sends the script, and returns every message of the node until the node ends the stream.
func talk(t *testing.T, network *pipes, script []*holdfastv1.ClientMessage) (said []*holdfastv1.ServerMessage) {
	t.Helper()
	conn, err := dial.Client("node", dial.Options{Dial: network.dial})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := holdfastv1.NewSessionServiceClient(conn).Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for _, m := range script {
			if stream.Send(m) != nil {
				return // Recv returns the reason
			}
			if m.GetTouch() == nil {
				synctest.Wait() // requests are answered in the order in which they were sent
			}
		}
		_ = stream.CloseSend()
	}()
	defer func() { <-sent }()
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return said
		}
		if err != nil {
			t.Fatalf("after %d answers to %d messages the stream ended: %v, want EOF", len(said), len(script), err)
		}
		said = append(said, m)
	}
}

// due returns the seqs of the answers to a message: one for each request of a batch, and one without a seq for a bad
// batch, or a batch in a batch.
func due(m *holdfastv1.ClientMessage) (seqs []uint64) {
	requests := []*holdfastv1.ClientMessage{m}
	if b := m.GetBatch(); b != nil {
		if requests = b.GetRequests(); len(requests) == 0 || len(requests) > session.MaxBatch {
			return []uint64{0}
		}
	}
	for _, m := range requests {
		seqs = append(seqs, m.GetOpen().GetSeq()+m.GetResume().GetSeq()+m.GetTouch().GetSeq()+m.GetClose().GetSeq()+
			m.GetUpgrade().GetSeq()+m.GetResumeSessions().GetSeq()+m.GetWrite().GetSeq()+m.GetRead().GetSeq()+
			m.GetAddWatches().GetSeq()+m.GetRemoveWatches().GetSeq())
	}
	return seqs
}

// counted fails the test unless each request was answered once, with its seq.
func counted(t *testing.T, script []*holdfastv1.ClientMessage, said []*holdfastv1.ServerMessage) {
	t.Helper()
	open, touched := map[uint64]int{}, map[uint64]bool{}
	for _, m := range script {
		for _, seq := range due(m) {
			open[seq]++
		}
	}
	var each []*holdfastv1.ServerMessage
	for _, m := range said {
		if s := wire.StateFrom(m.GetState()); s.Node != 1 || s.Mode == 0 || s.Index == 0 {
			t.Errorf("%v says that the node's state is %+v, want node 1, a mode and an index", m, s)
		}
		if several := m.GetAnswers(); several != nil {
			each = append(each, several.GetMessages()...)
		} else {
			each = append(each, m)
		}
	}
	for _, m := range each {
		var seq uint64
		switch a := m.GetMessage().(type) {
		case *holdfastv1.ServerMessage_Opened:
			seq = a.Opened.GetSeq()
			granted(t, a.Opened.GetSession(), a.Opened.GetSafeFor())
		case *holdfastv1.ServerMessage_Resumed:
			seq = a.Resumed.GetSeq()
			granted(t, a.Resumed.GetSession(), a.Resumed.GetSafeFor())
		case *holdfastv1.ServerMessage_ResumedSessions:
			seq = a.ResumedSessions.GetSeq()
		case *holdfastv1.ServerMessage_Touched:
			seq = a.Touched.GetSeq()
			if touched[seq] && open[seq] == 0 && len(a.Touched.GetFailures()) == 0 {
				continue // the touch was answered, and is confirmed now (S3 length of a promise)
			}
			touched[seq] = true
		case *holdfastv1.ServerMessage_Closed:
			seq = a.Closed.GetSeq()
		case *holdfastv1.ServerMessage_Upgraded:
			seq = a.Upgraded.GetSeq()
			granted(t, a.Upgraded.GetSession(), a.Upgraded.GetSafeFor())
			if a.Upgraded.GetSession().GetLocal() || a.Upgraded.GetToken().GetLocal() {
				t.Errorf("an upgrade returns a local session or token: %v", a.Upgraded)
			}
		case *holdfastv1.ServerMessage_Written:
			seq = a.Written.GetSeq()
		case *holdfastv1.ServerMessage_Read:
			seq = a.Read.GetSeq()
		case *holdfastv1.ServerMessage_WatchesAdded:
			seq = a.WatchesAdded.GetSeq()
		case *holdfastv1.ServerMessage_WatchesRemoved:
			seq = a.WatchesRemoved.GetSeq()
		case *holdfastv1.ServerMessage_Failed:
			seq = a.Failed.GetSeq()
		default:
			continue // an event
		}
		if open[seq]--; open[seq] < 0 {
			t.Errorf("seq %d is answered more often than it was sent: %v", seq, m)
		}
	}
	for seq, left := range open {
		if left > 0 {
			t.Errorf("seq %d was sent %d times more than it is answered", seq, left)
		}
	}
}

// granted checks a granted session and its promise.
func granted(t *testing.T, s *holdfastv1.Session, safe *durationpb.Duration) {
	t.Helper()
	timeout := s.GetTimeout().AsDuration()
	if timeout < shortest || timeout > longest || s.GetOwner() != 1 || s.GetAttachment() == 0 || s.GetId()>>56 != 1 {
		t.Errorf("granted is %v, want an id and an owner of node 1, an attachment, and a timeout from %v to %v", s, shortest,
			longest)
	}
	if safe != nil && safe.AsDuration() >= timeout {
		t.Errorf("a session with a timeout of %v is promised %v, want less than the timeout", timeout, safe.AsDuration())
	}
}

// holder is an honest client with one session.
type holder struct {
	conn  session.Connection
	grant session.Grant
	done  chan struct{}
	ended chan struct{}
}

// holds opens a session and touches it every second, until stillHeld.
func holds(t *testing.T, server session.Service, open session.OpenSession) *holder {
	t.Helper()
	conn, err := server.Connect(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h := &holder{conn: conn, done: make(chan struct{}), ended: make(chan struct{})}
	h.grant, err = conn.Open(ctx, session.OpenRequest{
		RequestID: open.RequestID,
		Spec:      session.Spec{Timeout: open.Timeout}, MS: open.MS,
	})
	if err != nil {
		t.Fatalf("open of the honest client: %v", err)
	}
	go func() {
		defer close(h.ended)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-h.done:
				return
			}
			touching, cancel := context.WithTimeout(context.Background(), time.Minute)
			_, err := conn.TouchToken(touching, h.grant.Token)
			cancel()
			if err != nil {
				t.Errorf("touch of the honest client: %v", err)
				<-h.done
				return
			}
		}
	}()
	return h
}

// stillHeld ends the touches. It fails the test unless the session has the attachment and the owner that it was opened
// with.
func (h *holder) stillHeld(t *testing.T, w *world) {
	t.Helper()
	close(h.done)
	<-h.ended
	h.conn.Disconnect()
	now, ok := w.State().Session(h.grant.Session.ID)
	if !ok || now.Attachment != h.grant.Session.Attachment || now.Owner != h.grant.Session.Owner {
		t.Errorf("the honest client's session is %+v (exists: %v), want %+v", now, ok, h.grant.Session)
	}
}
