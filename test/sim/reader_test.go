package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1" //nolint:depguard // a client without the SDK, which checks no answer
	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/transport/wire" //nolint:depguard // reads an answer's statement about its node
)

// rawClient is a client without the SDK, with a connection to each node.
type rawClient struct {
	w     *world
	name  string
	rand  *rand.Rand
	nodes []holdfastv1.SessionServiceClient
	conns []*grpc.ClientConn
}

func (w *world) rawClient(name string) (*rawClient, error) {
	s := &rawClient{w: w, name: name, rand: w.stream(name)}
	host := w.Host(name)
	for _, address := range w.endpoints() {
		cc, err := grpc.NewClient("passthrough:///"+address,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return host.Dial(ctx, address)
			}),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff: backoff.Config{
					BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
					MaxDelay: time.Second,
				},
				MinConnectTimeout: time.Second,
			}))
		if err != nil {
			return nil, err
		}
		s.conns, s.nodes = append(s.conns, cc), append(s.nodes, holdfastv1.NewSessionServiceClient(cc))
	}
	return s, nil
}

func (s *rawClient) disconnect() {
	for _, cc := range s.conns {
		_ = cc.Close()
	}
}

// wanderer reads from one node after the other. Each request carries the index that the wanderer has seen, but it never
// checks an answer. It asks a read-only node for answers that such a node must not give.
type wanderer struct {
	*rawClient
	seen  uint64
	token *holdfastv1.Token // the token of its session, nil for none
	tries uint64
}

func (w *world) wanderer(name string) *wanderer {
	s, err := w.rawClient(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return &wanderer{rawClient: s}
}

// wander reads until ctx ends.
func (r *wanderer) wander(ctx context.Context) {
	for ctx.Err() == nil {
		node := r.rand.IntN(len(r.nodes))
		var mode session.Mode
		if r.rand.IntN(6) == 0 {
			mode = r.list(ctx, node)
		} else {
			mode = r.get(ctx, node, r.w.someID(r.rand))
		}
		if mode == session.ModeReadOnly && r.rand.IntN(2) == 0 {
			r.write(ctx, node)
		}
		sleep(ctx, 50*time.Millisecond+time.Duration(r.rand.Int64N(int64(450*time.Millisecond))))
	}
}

// someID returns the id of a session that was opened, mostly recently; 0 before the first.
func (w *world) someID(r *rand.Rand) session.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.opened)
	if n == 0 {
		return 0
	}
	if r.IntN(4) > 0 {
		return w.opened[n-1-r.IntN(min(n, 12))]
	}
	return w.opened[r.IntN(n)]
}

// noteOpened adds a session for readers.
func (w *world) noteOpened(id session.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.knows[id] {
		w.knows[id] = true
		w.opened = append(w.opened, id)
	}
}

// noteState records a node's report about itself.
func (r *wanderer) noteState(state session.NodeState) session.NodeState {
	r.seen = max(r.seen, state.Index)
	return state
}

func (r *wanderer) get(ctx context.Context, node int, id session.ID) session.Mode {
	if id == 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	read := &history.Read{Allows: r.rand.IntN(4) > 0, Seen: r.seen}
	e := history.Event{
		Kind: history.Shown, Who: r.name, ID: id, Node: number(node), Sent: r.w.record.Now(),
		Read: read,
	}
	answer, err := r.nodes[node].GetSession(ctx,
		&holdfastv1.GetSessionRequest{SessionId: uint64(id), AllowReadOnly: read.Allows, SeenIndex: read.Seen})
	switch expired, _ := errors.AsType[*session.ExpiredError](wire.Domain(err)); {
	case expired != nil:
		e.State = wire.StateOf(err)
	case err != nil:
		return r.refused(e, history.Show, err)
	case answer.GetCertificate() != nil:
		cert, err := wire.CertificateFrom(answer.GetCertificate())
		if err != nil {
			r.w.failAbout(id, "%s: certificate: %v", r.name, err)
		}
		e.Certificate, e.State = &cert, wire.StateFrom(answer.GetState())
	default:
		found, err := wire.SessionFrom(answer.GetSession())
		if err != nil {
			r.w.failAbout(id, "%s: session: %v", r.name, err)
		}
		read.Sessions, e.State = []session.Session{found}, wire.StateFrom(answer.GetState())
	}
	r.noteState(e.State)
	r.w.record.Add(e)
	return e.State.Mode
}

// pageSize is small enough that a run's sessions fill several pages.
const pageSize = 20

func (r *wanderer) list(ctx context.Context, node int) session.Mode {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var after session.ID
	var token string
	for {
		read := &history.Read{Allows: r.rand.IntN(4) > 0, Seen: r.seen, Page: true, After: after}
		e := history.Event{Kind: history.Shown, Who: r.name, Node: number(node), Sent: r.w.record.Now(), Read: read}
		answer, err := r.nodes[node].ListSessions(ctx, &holdfastv1.ListSessionsRequest{
			PageSize: pageSize, PageToken: token, AllowReadOnly: read.Allows, SeenIndex: read.Seen,
			Filter: &holdfastv1.SessionFilter{Scope: holdfastv1.Scope_SCOPE_GLOBAL},
		})
		if err != nil {
			return r.refused(e, history.Show, err)
		}
		for _, p := range answer.GetSessions() {
			s, err := wire.SessionFrom(p.GetSession())
			if err != nil {
				r.w.failf("%s: listed session: %v", r.name, err)
			}
			read.Sessions = append(read.Sessions, s)
		}
		e.State = r.noteState(wire.StateFrom(answer.GetState()))
		token = answer.GetNextPageToken()
		if n := len(read.Sessions); token != "" && n > 0 {
			after = read.Sessions[n-1].ID
			read.Through = after
		}
		r.w.record.Add(e)
		if token == "" || after == 0 || r.rand.IntN(3) == 0 {
			return e.State.Mode
		}
	}
}

// refused records that a request was refused or not answered.
func (r *wanderer) refused(e history.Event, op history.Op, err error) session.Mode {
	e.Kind, e.Op, e.State, e.Text = history.Refused, op, r.noteState(wire.StateOf(err)), err.Error()
	e.Read, e.Lagging, e.Unknown = nil, errors.Is(wire.Domain(err), session.ErrLagging), op != history.Show
	r.w.record.Add(e)
	return e.State.Mode
}

// write asks a node for what a read-only node must not give: a session, an attachment, an end.
func (r *wanderer) write(ctx context.Context, node int) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	e := history.Event{Who: r.name, Node: number(node), Sent: r.w.record.Now()}
	if r.token == nil || r.rand.IntN(3) == 0 {
		r.open(ctx, node, e)
		return
	}
	e.ID, e.Attachment = session.ID(r.token.GetSessionId()), r.token.GetAttachment()
	if r.rand.IntN(2) == 0 {
		r.resume(ctx, node, e)
		return
	}
	asks := e
	asks.Kind, asks.Sent = history.CloseSent, 0
	r.w.record.Add(asks)
	answer, err := r.nodes[node].CloseSession(ctx, &holdfastv1.CloseSessionRequest{Token: r.token})
	if err != nil {
		r.refused(e, history.Close, err)
		return
	}
	e.Kind, e.State = history.Closed, r.noteState(wire.StateFrom(answer.GetState()))
	r.w.record.Add(e)
	r.token = nil
}

// begin opens the session whose token a wanderer shows to read-only nodes. It never touches the session, so the session
// expires; a read-only node may not know.
func (r *wanderer) begin(ctx context.Context) {
	for node := 0; ctx.Err() == nil && r.token == nil; node++ {
		bound, cancel := context.WithTimeout(ctx, callTimeout)
		at := node % len(r.nodes)
		r.open(bound, at, history.Event{Who: r.name, Node: number(at), Sent: r.w.record.Now()})
		cancel()
		sleep(ctx, 500*time.Millisecond)
	}
}

func (r *wanderer) open(ctx context.Context, node int, e history.Event) {
	var id session.RequestID
	for i := range len(id) / 8 {
		binary.LittleEndian.PutUint64(id[8*i:], r.rand.Uint64())
	}
	answer, err := r.nodes[node].OpenSession(ctx,
		&holdfastv1.OpenSessionRequest{Timeout: durationpb.New(longest), RequestId: id[:]})
	if err != nil {
		r.refused(e, history.Open, err)
		return
	}
	e.Kind = history.Opened
	r.granted(e, answer.GetToken(), answer.GetSafeFor(), answer.GetState())
}

func (r *wanderer) resume(ctx context.Context, node int, e history.Event) {
	r.tries++
	answer, err := r.nodes[node].ResumeSession(ctx,
		&holdfastv1.ResumeSessionRequest{Token: r.token, Instance: 1, Attempt: r.tries, SeenIndex: r.seen})
	if err != nil {
		r.refused(e, history.Resume, err)
		return
	}
	e.Kind = history.Resumed
	r.granted(e, answer.GetToken(), answer.GetSafeFor(), answer.GetState())
}

// granted records that an open or a resume was answered, and that the session is silent from then on.
func (r *wanderer) granted(e history.Event, t *holdfastv1.Token, safe *durationpb.Duration,
	state *holdfastv1.NodeState,
) {
	e.ID, e.Attachment, e.State = session.ID(t.GetSessionId()), t.GetAttachment(), r.noteState(wire.StateFrom(state))
	if safe != nil {
		e.Until = e.Sent + safe.AsDuration()
	}
	r.w.record.Add(e)
	r.token = t
	r.w.record.Add(history.Event{Kind: history.Silent, Who: r.name, ID: e.ID, Attachment: e.Attachment})
}
