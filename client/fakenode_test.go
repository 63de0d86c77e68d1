package client

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

func (n *fakeNode) Connect(g grpc.BidiStreamingServer[holdfastv1.ClientMessage, holdfastv1.ServerMessage]) error {
	n.heard(g.Context())
	var denied error
	if n.c.set(func() { denied = n.denies }); denied != nil {
		return wire.Status(denied)
	}
	s := &fakeStream{BidiStreamingServer: g}
	n.c.set(func() { n.streams[s] = true })
	defer n.c.set(func() {
		delete(n.streams, s)
		for _, held := range n.c.sessions {
			if held.served == s {
				held.served = nil
			}
		}
	})
	for {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		switch {
		case m.GetBatch() != nil:
			n.takeBatch(s, m.GetBatch())
			continue
		case m.GetResumeSessions() != nil:
			n.resumeMany(s, m.GetResumeSessions())
			continue
		}
		for _, answer := range n.handle(s, m) {
			s.push(answer)
		}
	}
}

// takeBatch performs the requests of a batch, and answers all of them with one message.
func (n *fakeNode) takeBatch(s *fakeStream, b *holdfastv1.Batch) {
	n.c.set(func() {
		n.batches = append(n.batches, len(b.GetRequests()))
		if n.state.Mode == 0 || len(b.GetRequests()) > fakeBatch {
			n.c.t.Errorf("node %d of mode %v gets a batch of %d requests", n.number, n.state.Mode, len(b.GetRequests()))
		}
	})
	several := new(holdfastv1.Answers)
	var state *holdfastv1.NodeState
	for _, m := range b.GetRequests() {
		for _, answer := range n.handle(s, m) {
			state, answer.State = answer.State, nil
			several.Messages = append(several.Messages, answer)
		}
	}
	if len(several.GetMessages()) > 0 {
		s.push(&holdfastv1.ServerMessage{
			State: state, Message: &holdfastv1.ServerMessage_Answers{Answers: several},
		})
	}
}

// resumeMany resumes each session separately, and answers with one message. It answers nothing when the script swallows
// any of them.
func (n *fakeNode) resumeMany(s *fakeStream, m *holdfastv1.ResumeSessions) {
	ids := m.GetIds()
	n.c.set(func() {
		n.many = append(n.many, len(ids))
		if n.state.Mode == 0 || len(ids) > fakeBatch || len(m.GetCredentials()) != 16*len(ids) ||
			len(m.GetAttachments()) != len(ids) || len(m.GetAttempts()) != len(ids) {
			n.c.t.Errorf("node %d of mode %v gets %v", n.number, n.state.Mode, m)
		}
	})
	answer := &holdfastv1.ResumedSessions{
		Seq: m.GetSeq(), Attachments: make([]uint64, len(ids)), SafeForMs: make([]uint64, len(ids)),
		Applied: make([]uint64, len(ids)), Floors: make([]uint64, len(ids)),
	}
	var state *holdfastv1.NodeState
	swallowed := false
	for i, id := range ids {
		one := n.handle(s, &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Resume{Resume: &holdfastv1.Resume{
			Seq: 1, Instance: m.GetInstance(), Attempt: m.GetAttempts()[i], SeenIndex: m.GetSeenIndex(),
			Token: &holdfastv1.Token{
				SessionId: id, Credential: m.GetCredentials()[16*i : 16*i+16], Attachment: m.GetAttachments()[i],
			},
		}}})
		switch {
		case len(one) == 0:
			swallowed = true
		case one[0].GetFailed() != nil:
			state = one[0].GetState()
			answer.Failures = append(answer.Failures, &holdfastv1.TouchFailure{Id: id, Error: one[0].GetFailed().GetError()})
		default:
			state = one[0].GetState()
			answer.Attachments[i] = one[0].GetResumed().GetSession().GetAttachment()
			answer.Applied[i], answer.Floors[i] = one[0].GetResumed().GetApplied(), one[0].GetResumed().GetFloor()
			answer.SafeForMs[i] = uint64(max(one[0].GetResumed().GetSafeFor().AsDuration().Milliseconds(), 0))
		}
	}
	if !swallowed {
		s.push(&holdfastv1.ServerMessage{
			State: state, Message: &holdfastv1.ServerMessage_ResumedSessions{ResumedSessions: answer},
		})
	}
}

// fakeBatch is the largest batch of a fake node that reports its state.
const fakeBatch = 16

func (n *fakeNode) handle(s *fakeStream, m *holdfastv1.ClientMessage) []*holdfastv1.ServerMessage {
	kind, seq, detail := describe(m)
	c := n.c
	var script func(string) error
	c.set(func() {
		n.got = append(n.got, fmt.Sprintf("%v %s%s", time.Since(c.start), kind, detail))
		script = n.script
	})
	var scripted error
	if script != nil {
		scripted = script(kind)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(scripted, errMute) {
		return nil
	}
	var answer *holdfastv1.ServerMessage
	err := scripted
	if scripted == nil || errors.Is(scripted, errMuteAfter) {
		answer, err = n.do(s, m)
	}
	if errors.Is(scripted, errMuteAfter) {
		return nil
	}
	if err != nil {
		answer = &holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_Failed{Failed: wire.FailedProto(seq, err)},
		}
	}
	answer.State = n.stateProto()
	return []*holdfastv1.ServerMessage{answer}
}

// stateProto returns the node's reported state, nil for none. The caller holds mu.
func (n *fakeNode) stateProto() *holdfastv1.NodeState {
	if n.state.Mode == 0 {
		return nil
	}
	return &holdfastv1.NodeState{
		Node: uint32(n.number), Mode: holdfastv1.Mode(n.state.Mode), Index: n.state.Index, MaxBatch: fakeBatch,
	}
}

// unreadable refuses a read that the node may not answer (N3 stale reads, N4 seen index). The caller holds mu.
//
//nolint:revive // flag-parameter: a field of the request
func (n *fakeNode) unreadable(seen uint64, allowed bool) error {
	if n.stale {
		return nil
	}
	err := n.behind(seen, false)
	if mode := n.state.Mode; err == nil && (mode == session.ModeNoLeader || mode == session.ModeReadOnly && !allowed) {
		return session.ErrNoLeader
	}
	return err
}

// behind refuses a request from a client that has seen a higher index (N4), and a write that a read-only node refuses
// (N2 read-only refusals). The caller holds mu.
func (n *fakeNode) behind(seen uint64, write bool) error {
	switch {
	case write && n.state.Mode == session.ModeReadOnly && n.underWay > 0:
		n.underWay--
		return nil
	case write && n.state.Mode == session.ModeReadOnly: // nodes check the mode before the seen index
		return session.ErrReadOnly
	case n.state.Mode != 0 && n.state.Index < seen:
		return session.ErrLagging
	case write && n.state.Mode == session.ModeNoLeader:
		return session.ErrNoLeader
	default:
		return nil
	}
}

func describe(m *holdfastv1.ClientMessage) (kind string, seq uint64, detail string) {
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Open:
		return "open", m.Open.GetSeq(), ""
	case *holdfastv1.ClientMessage_Resume:
		return "resume", m.Resume.GetSeq(),
			fmt.Sprintf(" %v attempt %d", session.ID(m.Resume.GetToken().GetSessionId()), m.Resume.GetAttempt())
	case *holdfastv1.ClientMessage_Touch:
		if len(m.Touch.GetIds()) == 0 {
			return "touch", m.Touch.GetSeq(), ""
		}
		ids := slices.Sorted(slices.Values(m.Touch.GetIds()))
		return "touch", m.Touch.GetSeq(), fmt.Sprintf(" %x", ids)
	case *holdfastv1.ClientMessage_Close:
		return "close", m.Close.GetSeq(), ""
	case *holdfastv1.ClientMessage_Upgrade:
		return "upgrade", m.Upgrade.GetSeq(), ""
	}
	return describeTree(m)
}

// do does a request as a healthy node does. The caller holds mu.
func (n *fakeNode) do(s *fakeStream, m *holdfastv1.ClientMessage) (*holdfastv1.ServerMessage, error) {
	c := n.c
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Open:
		held, repeat, err := n.open(s, m.Open)
		if err != nil {
			return nil, err
		}
		safe := durationpb.New(promised(held.Timeout))
		c.promising(held.ID, promised(held.Timeout))
		if repeat {
			safe = nil
		}
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Opened{Opened: &holdfastv1.Opened{
			Seq: m.Open.GetSeq(), Session: wire.SessionProto(held.Session), Token: fakeToken(held), SafeFor: safe,
		}}}, nil
	case *holdfastv1.ClientMessage_Resume:
		held, err := n.resume(s, m.Resume)
		if err != nil {
			return nil, err
		}
		safe := promised(held.Timeout)
		if n.muteGrants {
			safe = -1
		}
		c.promising(held.ID, safe)
		applied, floor := c.tree.resumed(held)
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Resumed{Resumed: &holdfastv1.Resumed{
			Seq: m.Resume.GetSeq(), Session: wire.SessionProto(held.Session), Token: fakeToken(held),
			SafeFor: wire.PromiseProto(safe), Applied: applied, Floor: floor,
		}}}, nil
	case *holdfastv1.ClientMessage_Touch:
		return n.touch(s, m.Touch), nil
	case *holdfastv1.ClientMessage_Upgrade:
		held, err := n.upgrade(m.Upgrade.GetToken())
		if err != nil {
			return nil, err
		}
		safe := promised(held.Timeout)
		c.promising(held.ID, safe)
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Upgraded{Upgraded: &holdfastv1.Upgraded{
			Seq: m.Upgrade.GetSeq(), Session: wire.SessionProto(held.Session), Token: fakeToken(held),
			SafeFor: wire.PromiseProto(safe),
		}}}, nil
	case *holdfastv1.ClientMessage_Close:
		if err := n.close(m.Close.GetToken()); err != nil {
			return nil, err
		}
		return &holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_Closed{Closed: &holdfastv1.Closed{Seq: m.Close.GetSeq()}},
		}, nil
	}
	return n.doTree(s, m)
}

// promised returns the promise that an open or a touch brings (S2 opens and moves are touches, S3 length of a promise).
func promised(timeout time.Duration) time.Duration { return timeout - timeout/100 - time.Millisecond }

func credentialOf(id session.ID) session.Credential {
	key := session.Key{1}
	return key.Credential(id)
}

func fakeToken(s *fakeSession) *holdfastv1.Token {
	return wire.TokenProto(
		session.Token{ID: s.ID, Credential: credentialOf(s.ID), Attachment: s.Attachment, Local: s.Local},
	)
}

func (n *fakeNode) open(s *fakeStream, m *holdfastv1.Open) (held *fakeSession, repeat bool, err error) {
	c := n.c
	request := session.RequestID(m.GetRequestId())
	if err = n.behind(0, !m.GetLocal()); err != nil {
		return nil, false, err
	}
	if held = c.sessions[c.requests[request]]; held != nil {
		return held, true, nil
	}
	labels, err := session.NewLabels(m.GetLabels())
	if err != nil {
		return nil, false, err
	}
	if m.GetLocal() && c.localOff {
		return nil, false, &session.FieldError{
			Field: "local", Limit: "false while the cluster's setting local_sessions is off",
		}
	}
	c.opened++
	c.attachment++
	held = &fakeSession{served: s, Session: session.Session{
		ID:   session.ID(n.number)<<56 | session.ID(c.opened),
		Spec: session.Spec{Timeout: m.GetTimeout().AsDuration(), Labels: labels}, Owner: n.number,
		Attachment: c.attachment, Local: m.GetLocal(), OpenedIndex: uint64(c.opened),
		OpenedAt: session.Epoch(),
	}}
	c.sessions[held.ID], c.requests[request] = held, held.ID
	c.tree.opened(held.ID, m.GetInstance())
	return held, false, nil
}

func (n *fakeNode) resume(s *fakeStream, m *holdfastv1.Resume) (*fakeSession, error) {
	held, err := n.at(m.GetToken())
	if off := n.behind(m.GetSeenIndex(), err != nil || !held.Local); off != nil {
		return nil, off
	}
	if err != nil {
		return nil, err
	}
	named, same := m.GetToken(), held.Instance == m.GetInstance()
	switch { // M1
	case same && m.GetAttempt() < held.attempt:
		return nil, session.MovedTo(held.Session)
	case !same && held.Instance != 0 && (named.GetAttachment() != held.Attachment || named.GetLocal() != held.Local):
		return nil, session.MovedTo(held.Session)
	}
	if old := held.served; old != nil && old != s {
		go old.push(movedMessage(held.ID, m.GetInstance()))
	}
	n.c.attachment++
	held.Owner, held.Attachment, held.served = n.number, n.c.attachment, s
	held.Instance, held.attempt = m.GetInstance(), m.GetAttempt()
	return held, nil
}

// movedMessage tells that an instance has resumed a session.
func movedMessage(id session.ID, by uint64) *holdfastv1.ServerMessage {
	return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Moved{Moved: &holdfastv1.Moved{
		Ids: []uint64{uint64(id)}, Instances: []uint64{by},
	}}}
}

func (n *fakeNode) touch(s *fakeStream, m *holdfastv1.Touch) *holdfastv1.ServerMessage {
	answer := &holdfastv1.Touched{Seq: m.GetSeq()}
	n.c.tree.acknowledged(m)
	var smallest time.Duration
	var touched []session.ID
	for id, held := range n.c.sessions {
		if len(m.GetIds()) == 0 && held.served != s || len(m.GetIds()) > 0 && !slices.Contains(m.GetIds(), uint64(id)) {
			continue
		}
		err := n.failures[id]
		if err == nil && held.served != s {
			err = session.MovedTo(held.Session)
		}
		if err != nil {
			answer.Failures = append(answer.Failures, &holdfastv1.TouchFailure{Id: uint64(id), Error: wire.Detail(err)})
			continue
		}
		if smallest == 0 || held.Timeout < smallest {
			smallest = held.Timeout
		}
		touched = append(touched, id)
	}
	safe := promised(smallest)
	if n.promise != nil {
		safe = n.promise(smallest)
	}
	for _, id := range touched {
		n.c.promising(id, safe)
	}
	if smallest > 0 {
		answer.SafeFor = wire.PromiseProto(safe)
	}
	return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: answer}}
}

// upgrade makes a local session of this node global. The local token of an upgraded session stays valid.
func (n *fakeNode) upgrade(p *holdfastv1.Token) (*fakeSession, error) {
	held, err := n.at(p)
	switch {
	case err != nil && errors.Is(err, session.ErrExpired) && session.ID(p.GetSessionId()).Node() != n.number:
		return nil, session.ErrMoved
	case err != nil:
		return nil, err
	case held.Owner != n.number, !p.GetLocal() && held.Attachment != p.GetAttachment():
		return nil, session.MovedTo(held.Session) // an upgrade of a global session is a touch
	case held.Local && n.c.upgradeOff:
		return nil, &session.FieldError{
			Field: "token", Limit: "only of a global session while the cluster's setting local_session_upgrade is off",
		}
	case held.Local:
		n.c.attachment++
		held.Local, held.Attachment, held.OpenedIndex = false, n.c.attachment, 77
	}
	return held, nil
}

func (n *fakeNode) close(p *holdfastv1.Token) error {
	held, err := n.at(p)
	if err != nil {
		return err
	}
	if held.Attachment != p.GetAttachment() || held.Local != p.GetLocal() {
		return session.MovedTo(held.Session)
	}
	n.c.end(held.ID, session.CauseClosed)
	return nil
}
