package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport"
)

// fakeCluster answers as a cluster would whose log is a mutex. Its nodes can be told to misbehave.
type fakeCluster struct {
	t     *testing.T
	start time.Time

	mu         sync.Mutex
	nodes      map[string]*fakeNode
	sessions   map[session.ID]*fakeSession
	ended      map[session.ID]session.Certificate
	requests   map[session.RequestID]session.ID
	attachment uint64
	opened     int
}

type fakeSession struct {
	session.Session
	instance, attempt uint64
	served            *fakeStream // nil when its owner has lost the connection
}

// fakeNode is one address. Its fields are guarded by the cluster's mu.
type fakeNode struct {
	holdfastv1.UnimplementedSessionServiceServer
	holdfastv1.UnimplementedClusterServiceServer
	c       *fakeCluster
	address string
	number  session.Node

	listener *bufconn.Listener // nil while down
	server   *grpc.Server
	streams  map[*fakeStream]bool
	hang     bool // connections are never established
	dials    []time.Duration
	got      []string // what was received, with the time since the start

	// script, when set, is asked before a request is done. It may refuse with an error, or swallow the answer by
	// returning errMute; after doing it when that is errMuteAfter.
	script func(kind string) error
	// promise, when set, says what a touch of that smallest timeout is promised; negative: nothing.
	promise func(smallest time.Duration) time.Duration
	// failures are what touches report.
	failures map[session.ID]error
	try      []string
}

var (
	errMute      = errors.New("swallow the request")
	errMuteAfter = errors.New("do it and swallow the answer")
)

type fakeStream struct {
	grpc.BidiStreamingServer[holdfastv1.ClientMessage, holdfastv1.ServerMessage]
	mu sync.Mutex
}

func (s *fakeStream) push(m *holdfastv1.ServerMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.Send(m) // a stream that has ended hears nothing
}

func newFakeCluster(t *testing.T, nodes int) *fakeCluster {
	t.Helper()
	c := &fakeCluster{
		t: t, start: time.Now(), nodes: make(map[string]*fakeNode), sessions: make(map[session.ID]*fakeSession),
		ended: make(map[session.ID]session.Certificate), requests: make(map[session.RequestID]session.ID),
	}
	for i := 1; i <= nodes; i++ {
		n := &fakeNode{c: c, address: fmt.Sprintf("n%d:7400", i), number: session.Node(i)}
		c.nodes[n.address] = n
		n.up()
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			n.down()
		}
	})
	return c
}

func (c *fakeCluster) node(i int) *fakeNode { return c.nodes[fmt.Sprintf("n%d:7400", i)] }

func (c *fakeCluster) endpoints(from, to int) []string {
	var e []string
	for i := from; i <= to; i++ {
		e = append(e, c.node(i).address)
	}
	return e
}

func (c *fakeCluster) dial(ctx context.Context, address string) (net.Conn, error) {
	c.mu.Lock()
	n := c.nodes[address]
	if n == nil {
		c.mu.Unlock()
		return nil, errors.New("no such host")
	}
	n.dials = append(n.dials, time.Since(c.start))
	hang, listener := n.hang, n.listener
	c.mu.Unlock()
	switch {
	case hang:
		<-ctx.Done()
		return nil, ctx.Err()
	case listener == nil:
		return nil, errors.New("connection refused")
	default:
		return listener.DialContext(ctx)
	}
}

// set changes nodes under the lock.
func (c *fakeCluster) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (n *fakeNode) up() {
	listener, server := bufconn.Listen(1<<16), grpc.NewServer()
	holdfastv1.RegisterSessionServiceServer(server, n)
	holdfastv1.RegisterClusterServiceServer(server, n)
	n.c.set(func() { n.listener, n.server, n.streams = listener, server, make(map[*fakeStream]bool) })
	go func() { _ = server.Serve(listener) }() // ends with Stop
}

// down cuts all connections and refuses new ones.
func (n *fakeNode) down() {
	var server *grpc.Server
	n.c.set(func() {
		server, n.server, n.listener = n.server, nil, nil
		for _, s := range n.c.sessions {
			if s.served != nil && n.streams[s.served] {
				s.served = nil
			}
		}
	})
	if server != nil {
		server.Stop()
	}
}

// record returns what was received since the last call.
func (n *fakeNode) record() []string {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	got := n.got
	n.got = nil
	return got
}

func (n *fakeNode) broadcast(m *holdfastv1.ServerMessage) {
	var streams []*fakeStream
	n.c.set(func() {
		for s := range n.streams {
			streams = append(streams, s)
		}
	})
	for _, s := range streams {
		s.push(m)
	}
}

func (n *fakeNode) jeopardy(try ...string) {
	n.broadcast(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Jeopardy{Jeopardy: &holdfastv1.Jeopardy{Try: try}}})
}

func (n *fakeNode) jeopardyEnded() {
	n.broadcast(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_JeopardyEnded{JeopardyEnded: &holdfastv1.JeopardyEnded{}}})
}

func (n *fakeNode) Connect(g grpc.BidiStreamingServer[holdfastv1.ClientMessage, holdfastv1.ServerMessage]) error {
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
		for _, answer := range n.handle(s, m) {
			s.push(answer)
		}
	}
}

func (n *fakeNode) handle(s *fakeStream, m *holdfastv1.ClientMessage) []*holdfastv1.ServerMessage {
	kind, seq, detail := describe(m)
	c := n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	n.got = append(n.got, fmt.Sprintf("%v %s%s", time.Since(c.start), kind, detail))
	var scripted error
	if n.script != nil {
		scripted = n.script(kind)
	}
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
		answer = &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Failed{Failed: transport.FailedProto(seq, err)}}
	}
	return []*holdfastv1.ServerMessage{answer}
}

func describe(m *holdfastv1.ClientMessage) (kind string, seq uint64, detail string) {
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Open:
		return "open", m.Open.GetSeq(), ""
	case *holdfastv1.ClientMessage_Resume:
		return "resume", m.Resume.GetSeq(), fmt.Sprintf(" %v attempt %d", session.ID(m.Resume.GetToken().GetSessionId()), m.Resume.GetAttempt())
	case *holdfastv1.ClientMessage_Touch:
		if len(m.Touch.GetIds()) == 0 {
			return "touch", m.Touch.GetSeq(), ""
		}
		ids := slices.Sorted(slices.Values(m.Touch.GetIds()))
		return "touch", m.Touch.GetSeq(), fmt.Sprintf(" %x", ids)
	case *holdfastv1.ClientMessage_Close:
		return "close", m.Close.GetSeq(), ""
	}
	return "nothing", 0, ""
}

// do is what a healthy node does. The caller holds mu.
func (n *fakeNode) do(s *fakeStream, m *holdfastv1.ClientMessage) (*holdfastv1.ServerMessage, error) {
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Open:
		held, repeat, err := n.open(s, m.Open)
		if err != nil {
			return nil, err
		}
		safe := durationpb.New(promised(held.Timeout))
		if repeat {
			safe = nil
		}
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Opened{Opened: &holdfastv1.Opened{
			Seq: m.Open.GetSeq(), Session: transport.SessionProto(held.Session), Token: fakeToken(held), SafeFor: safe,
		}}}, nil
	case *holdfastv1.ClientMessage_Resume:
		held, err := n.resume(s, m.Resume)
		if err != nil {
			return nil, err
		}
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Resumed{Resumed: &holdfastv1.Resumed{
			Seq: m.Resume.GetSeq(), Session: transport.SessionProto(held.Session), Token: fakeToken(held),
			SafeFor: durationpb.New(promised(held.Timeout)),
		}}}, nil
	case *holdfastv1.ClientMessage_Touch:
		return n.touch(s, m.Touch), nil
	case *holdfastv1.ClientMessage_Close:
		if err := n.close(m.Close.GetToken()); err != nil {
			return nil, err
		}
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Closed{Closed: &holdfastv1.Closed{Seq: m.Close.GetSeq()}}}, nil
	}
	return nil, session.ErrInvalid
}

// promised is what an open is promised (S2, S3).
func promised(timeout time.Duration) time.Duration { return timeout - timeout/100 - time.Millisecond }

func credentialOf(id session.ID) session.Credential {
	key := session.Key{1}
	return key.Credential(id)
}

func fakeToken(s *fakeSession) *holdfastv1.Token {
	return transport.TokenProto(session.Token{ID: s.ID, Credential: credentialOf(s.ID), Attachment: s.Attachment})
}

func (n *fakeNode) open(s *fakeStream, m *holdfastv1.Open) (held *fakeSession, repeat bool, err error) {
	c := n.c
	request := session.RequestID(m.GetRequestId())
	if held = c.sessions[c.requests[request]]; held != nil {
		return held, true, nil
	}
	labels, err := session.NewLabels(m.GetLabels())
	if err != nil {
		return nil, false, err
	}
	c.opened++
	c.attachment++
	held = &fakeSession{served: s, Session: session.Session{
		ID: session.ID(n.number)<<56 | session.ID(c.opened), Timeout: m.GetTimeout().AsDuration(), Owner: n.number,
		Attachment: c.attachment, Labels: labels, OpenedIndex: uint64(c.opened), OpenedAt: session.Epoch(),
	}}
	c.sessions[held.ID], c.requests[request] = held, held.ID
	return held, false, nil
}

func (n *fakeNode) resume(s *fakeStream, m *holdfastv1.Resume) (*fakeSession, error) {
	held, err := n.c.find(m.GetToken())
	if err != nil {
		return nil, err
	}
	if held.instance == m.GetInstance() && m.GetAttempt() < held.attempt {
		return nil, session.ErrMoved
	}
	if old := held.served; old != nil && old != s {
		go old.push(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Moved{Moved: &holdfastv1.Moved{Ids: []uint64{uint64(held.ID)}}}})
	}
	n.c.attachment++
	held.Owner, held.Attachment, held.served = n.number, n.c.attachment, s
	held.instance, held.attempt = m.GetInstance(), m.GetAttempt()
	return held, nil
}

func (n *fakeNode) touch(s *fakeStream, m *holdfastv1.Touch) *holdfastv1.ServerMessage {
	answer := &holdfastv1.Touched{Seq: m.GetSeq()}
	var smallest time.Duration
	for id, held := range n.c.sessions {
		if len(m.GetIds()) == 0 && held.served != s || len(m.GetIds()) > 0 && !slices.Contains(m.GetIds(), uint64(id)) {
			continue
		}
		err := n.failures[id]
		if err == nil && held.served != s {
			err = session.ErrMoved
		}
		if err != nil {
			answer.Failures = append(answer.Failures, &holdfastv1.TouchFailure{Id: uint64(id), Error: transport.Detail(err)})
			continue
		}
		smallest = minPositive(smallest, held.Timeout)
	}
	safe := promised(smallest)
	if n.promise != nil {
		safe = n.promise(smallest)
	}
	if smallest > 0 {
		answer.SafeFor = transport.PromiseProto(safe)
	}
	return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: answer}}
}

func (n *fakeNode) close(p *holdfastv1.Token) error {
	held, err := n.c.find(p)
	if err != nil {
		return err
	}
	if held.Attachment != p.GetAttachment() {
		return session.ErrMoved
	}
	n.c.end(held.ID, session.CauseClosed)
	return nil
}

// find returns a living session, or why there is none. The caller holds mu.
func (c *fakeCluster) find(p *holdfastv1.Token) (*fakeSession, error) {
	t, err := transport.TokenFrom(p)
	if err != nil {
		return nil, err
	}
	if t.Credential != credentialOf(t.ID) {
		return nil, session.ErrBadCredential
	}
	if cert, ended := c.ended[t.ID]; ended {
		return nil, &session.ExpiredError{ID: t.ID, Certificate: &cert}
	}
	held := c.sessions[t.ID]
	if held == nil {
		return nil, &session.ExpiredError{ID: t.ID}
	}
	return held, nil
}

// end makes a certificate. The caller holds mu.
func (c *fakeCluster) end(id session.ID, cause session.Cause) session.Certificate {
	held := c.sessions[id]
	cert := session.Certificate{
		ID: id, Cause: cause, LastTouchAge: time.Second, Owner: held.Owner, Term: 3, Index: 99, EndedAt: session.Epoch(),
	}
	c.ended[id] = cert
	delete(c.sessions, id)
	return cert
}

// expire ends a session and tells its stream.
func (c *fakeCluster) expire(id session.ID) {
	var s *fakeStream
	var cert session.Certificate
	c.set(func() {
		s = c.sessions[id].served
		cert = c.end(id, session.CauseExpired)
	})
	s.push(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Gone{Gone: &holdfastv1.Gone{
		Ids: []uint64{uint64(id)}, Cause: holdfastv1.Cause_CAUSE_EXPIRED, Certificate: []*holdfastv1.Certificate{transport.CertificateProto(cert)},
	}}})
}

// bubble runs f in a synctest bubble with a cluster of so many nodes and a client that knows the first few.
func bubble(t *testing.T, nodes, known int, f func(t *testing.T, c *fakeCluster, cl *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, nodes)
		cl := newTestClient(t, c, c.endpoints(1, known))
		f(t, c, cl)
	})
}

func newTestClient(t *testing.T, c *fakeCluster, endpoints []string) *Client {
	t.Helper()
	cl, err := New(Config{Endpoints: endpoints, Dial: c.dial, Instance: 7, Rand: rand.NewPCG(1, 2)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}

func mustOpen(t *testing.T, cl *Client, timeout time.Duration) *Session {
	t.Helper()
	s, err := cl.Open(t.Context(), SessionOptions{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
