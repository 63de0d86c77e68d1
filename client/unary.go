package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Found is what is known of a session: the session while it lives, its certificate after the end.
type Found struct {
	Session session.Session
	// Certificate is nil while the session lives.
	Certificate *session.Certificate
	// Remaining is the time until expiry if the session stays silent; negative when unknown, as to a read-only node.
	Remaining time.Duration
	// State is that of the node that answered, zero when it told none. All that the answer shows was so at State.Index;
	// from a node that is [session.ModeReadOnly] it may be long ago.
	State session.NodeState
}

// local reports whether it is about a local session, of which its node alone decides: what that shows is not old,
// whatever it has applied (N4).
func (f Found) local() bool {
	return f.Session.Local || f.Certificate != nil && f.Certificate.Index == 0
}

// Get shows a session or the certificate of its end. The read is linearizable, unless [Config].ReadOnly allows another,
// and never shows an older state than this client has seen, see [Client.SeenIndex]. A local session is known to its
// node alone: when the node that answers says that the id is another's, the others are asked too, each once.
// [session.ErrExpired] when neither is known; with [session.ErrReadOnly] when it is a read-only node that knows
// neither: the session may have been opened since. While its node is silent, or refuses, the answer is undecided: an
// error that is not [session.ErrExpired] but [ErrUnreachable], or wraps the refusal, and says nothing of whether the
// session lives.
func (c *Client) Get(ctx context.Context, id session.ID) (Found, error) {
	f, state, err := read(ctx, c,
		func(ctx context.Context, cc *grpc.ClientConn, o session.ReadOptions) (Found, *holdfastv1.NodeState, error) {
			answer, err := holdfastv1.NewSessionServiceClient(cc).GetSession(ctx, &holdfastv1.GetSessionRequest{
				SessionId: uint64(id), AllowReadOnly: o.AllowReadOnly, SeenIndex: o.Seen,
			})
			if err != nil {
				return Found{}, nil, err
			}
			found := Found{Remaining: wire.PromiseFrom(answer.GetRemaining())}
			if p := answer.GetCertificate(); p != nil {
				cert, certErr := wire.CertificateFrom(p)
				found.Certificate = &cert
				return found, answer.GetState(), certErr
			}
			found.Session, err = wire.SessionFrom(answer.GetSession())
			return found, answer.GetState(), err
		})
	if err != nil {
		return Found{}, fmt.Errorf("show session %s: %w", id, err)
	}
	f.State = state
	return f, nil
}

// ListOptions says which sessions to list: those that match all that is set.
type ListOptions struct {
	// Owner 0 is any.
	Owner session.Node
	// Labels the session has; an empty value matches any value of the key.
	Labels map[string]string
	// MinAge and MaxAge bound how long ago the session was opened; 0 is no bound.
	MinAge, MaxAge time.Duration
	// MinRemaining and MaxRemaining bound the time until expiry; 0 is no bound.
	MinRemaining, MaxRemaining time.Duration
	// Scope is a kind of session; 0 is any. Local ones are those of the node that answers.
	Scope session.Scope
	// PageSize is 1 to [session.MaxPage]; 0 leaves it to the node.
	PageSize int
	// PageToken is from the former page.
	PageToken string
}

// Page is a page of sessions in the order of ids.
type Page struct {
	// Sessions may be empty although the page is not the last. Times that remain are negative when unknown.
	Sessions []session.Listed
	// Next is the token of the next page, empty after the last.
	Next string
	// State is as in [Found].
	State session.NodeState
}

// List returns one page of sessions. Each page is a read of its own, as [Client.Get] is one. A read-only node does not
// know what remains: filters by that are refused there, with a [session.FieldError].
func (c *Client) List(ctx context.Context, o ListOptions) (Page, error) {
	if o.PageSize < 0 || o.PageSize > session.MaxPage {
		return Page{}, fmt.Errorf("list sessions: %w",
			&session.FieldError{Field: "page_size", Limit: fmt.Sprintf("0 to %d", session.MaxPage)})
	}
	if o.Scope > session.ScopeLocal {
		return Page{}, fmt.Errorf("list sessions: %w", &session.FieldError{Field: "scope", Limit: "global, local or 0"})
	}
	page, state, err := read(ctx, c,
		func(ctx context.Context, cc *grpc.ClientConn, read session.ReadOptions) (Page, *holdfastv1.NodeState, error) {
			answer, err := holdfastv1.NewSessionServiceClient(cc).ListSessions(ctx, &holdfastv1.ListSessionsRequest{
				PageSize: uint32(o.PageSize), PageToken: o.PageToken, AllowReadOnly: read.AllowReadOnly,
				SeenIndex: read.Seen,
				Filter: &holdfastv1.SessionFilter{
					Owner: uint32(o.Owner), Labels: o.Labels, MinAge: bound(o.MinAge), MaxAge: bound(o.MaxAge),
					MinRemaining: bound(o.MinRemaining), MaxRemaining: bound(o.MaxRemaining),
					Scope: scopeProto(o.Scope),
				},
			})
			page := Page{
				Sessions: make([]session.Listed, 0, len(answer.GetSessions())), Next: answer.GetNextPageToken(),
			}
			for _, p := range answer.GetSessions() {
				s, convertErr := wire.SessionFrom(p.GetSession())
				err = errors.Join(err, convertErr)
				page.Sessions = append(page.Sessions,
					session.Listed{Session: s, Remaining: wire.PromiseFrom(p.GetRemaining())})
			}
			return page, answer.GetState(), err
		})
	if err != nil {
		return Page{}, fmt.Errorf("list sessions: %w", err)
	}
	page.State = state
	return page, nil
}

func scopeProto(s session.Scope) holdfastv1.Scope {
	switch s {
	case session.ScopeGlobal:
		return holdfastv1.Scope_SCOPE_GLOBAL
	case session.ScopeLocal:
		return holdfastv1.Scope_SCOPE_LOCAL
	default:
		return holdfastv1.Scope_SCOPE_UNSPECIFIED
	}
}

func bound(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// CloseToken ends the session of t. [session.ErrMoved] when the session has been resumed since t was given; a close
// that was repeated because its answer was lost succeeds. The node of a local session is looked for, as by
// [Client.UpgradeToken]. When ctx ends, the error wraps [session.ErrOutcomeUnknown] if a request was sent whose outcome
// is not known.
func (c *Client) CloseToken(ctx context.Context, t session.Token) error {
	tries := 0
	var asked writeOutcome
	err := c.about(ctx, t, func(ctx context.Context, cc *grpc.ClientConn) error {
		tries++
		var node peer.Peer
		_, err := holdfastv1.NewSessionServiceClient(cc).CloseSession(ctx,
			&holdfastv1.CloseSessionRequest{Token: wire.TokenProto(t)}, grpc.Peer(&node))
		asked.refused(&node, err)
		if another(wire.Domain(err)) {
			tries-- // it was not the session's node that was asked
		}
		return err
	})
	if expired, ok := errors.AsType[*session.ExpiredError](err); ok && tries > 1 && expired.Certificate != nil &&
		expired.Certificate.Cause == session.CauseClosed {
		return nil
	}
	if err != nil {
		return fmt.Errorf("close session %s: %w", t.ID, asked.end(ctx, err))
	}
	return nil
}

// Status is what a node says of itself.
type Status struct {
	// Address is the endpoint that was asked.
	Address                   string
	Node                      session.Node
	ClusterID                 string
	Role                      string // leader, follower, observer or candidate
	Term                      uint64
	Leader                    session.Node // 0 when none is known
	LeaderAddress             string
	CommitIndex, AppliedIndex uint64
	// Global and Local sessions the node knows, and those Attached, whose touches it takes.
	Global, Local, Attached uint64
	Ready                   bool
	NotReadyBecause         string
	// Warning is what a person should look into although the node serves.
	Warning string
	// Mode is what the node can do for clients (N1); 0 when it does not say.
	Mode session.Mode
	// MaxSessions is how many Global sessions there may be, StateBytes what the replicated state takes of a node's
	// memory as the cluster counts, and MaxStateBytes how much it may take; a bound of 0 is none, or one that the node
	// does not tell.
	MaxSessions, StateBytes, MaxStateBytes uint64
	// StateDigest is hexadecimal; the same on every node at the same applied index.
	StateDigest string
	Version     string
}

// Status asks the node at endpoint, and no other. The error is [ErrUnreachable] when it does not answer.
func (c *Client) Status(ctx context.Context, endpoint string) (Status, error) {
	var answer *holdfastv1.GetStatusResponse
	err := c.attempt(ctx, endpoint, func(ctx context.Context, cc *grpc.ClientConn) (err error) {
		answer, err = holdfastv1.NewClusterServiceClient(cc).GetStatus(ctx, &holdfastv1.GetStatusRequest{})
		return err
	})
	if err != nil {
		return Status{}, fmt.Errorf("ask %s for its status: %w", endpoint, err)
	}
	c.mu.Lock()
	ours := slices.Contains(c.servers, endpoint)
	c.mu.Unlock()
	if ours { // any address may be asked, a node of another cluster too
		c.seen.note(answer.GetAppliedIndex())
	}
	return Status{
		Address: endpoint, Node: session.Node(answer.GetId()), ClusterID: answer.GetClusterId(),
		Role: role(answer.GetRole()),
		Term: answer.GetTerm(), Leader: session.Node(answer.GetLeader()), LeaderAddress: answer.GetLeaderAddress(),
		CommitIndex: answer.GetCommitIndex(), AppliedIndex: answer.GetAppliedIndex(),
		Global: answer.GetSessionsGlobal(), Local: answer.GetSessionsLocal(), Attached: answer.GetSessionsAttached(),
		Ready: answer.GetReady(), NotReadyBecause: answer.GetNotReadyBecause(), Warning: answer.GetWarning(),
		MaxSessions: answer.GetMaxSessions(), StateBytes: answer.GetStateBytes(),
		MaxStateBytes: answer.GetMaxStateBytes(),
		Mode:          wire.ModeFrom(answer.GetMode()), StateDigest: answer.GetStateDigest(),
		Version: answer.GetVersion(),
	}, nil
}

func role(r holdfastv1.Role) string {
	switch r {
	case holdfastv1.Role_ROLE_LEADER:
		return "leader"
	case holdfastv1.Role_ROLE_FOLLOWER:
		return "follower"
	case holdfastv1.Role_ROLE_OBSERVER:
		return "observer"
	case holdfastv1.Role_ROLE_CANDIDATE:
		return "candidate"
	case holdfastv1.Role_ROLE_UNSPECIFIED:
		return "unknown"
	default:
		return "unknown"
	}
}

// Member is a member of the cluster.
type Member struct {
	Node                     session.Node
	Voter, Leader            bool
	ClientAddress            string
	RaftAddress, PeerAddress string
}

// Members returns the members of the newest configuration that the node which answers knows, in its order.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	var members []Member
	if err := c.unary(ctx, membersInto(&members)); err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	return members, nil
}

// membersInto is a call that leaves the members which a node knows in members.
func membersInto(members *[]Member) func(context.Context, *grpc.ClientConn) error {
	return func(ctx context.Context, cc *grpc.ClientConn) error {
		answer, err := holdfastv1.NewClusterServiceClient(cc).ListMembers(ctx, &holdfastv1.ListMembersRequest{})
		*members = make([]Member, 0, len(answer.GetMembers()))
		for _, m := range answer.GetMembers() {
			*members = append(*members, Member{
				Node: session.Node(m.GetId()), Voter: m.GetVoter(), Leader: m.GetLeader(),
				ClientAddress: m.GetClientAddress(), RaftAddress: m.GetRaftAddress(), PeerAddress: m.GetPeerAddress(),
			})
		}
		return err
	}
}

// TouchResult is the outcome of a touch by token.
type TouchResult struct {
	ID session.ID
	// SafeUntil is the promise; zero when nothing is promised now.
	SafeUntil time.Time
	// Err is why the session was not touched.
	Err error
}

// Touch touches sessions by token, at most [session.MaxTouchBatch], for tools that hold no connection; results are in
// the order of the tokens. Only its owner touches a session, so every endpoint is asked in turn, and the other members
// after them, about those that are not touched yet.
func (c *Client) Touch(ctx context.Context, tokens []session.Token) ([]TouchResult, error) {
	if len(tokens) == 0 || len(tokens) > session.MaxTouchBatch {
		return nil, fmt.Errorf("touch sessions: %w",
			&session.FieldError{Field: "tokens", Limit: fmt.Sprintf("1 to %d", session.MaxTouchBatch)})
	}
	t := &toucher{clock: c.clock, tokens: tokens, results: make([]TouchResult, len(tokens))}
	for i := range tokens {
		t.results[i].ID = tokens[i].ID
		t.open = append(t.open, i)
	}
	servers := c.endpoints()
	t.round(ctx, c, servers)
	if len(t.open) > 0 {
		if members, membersErr := c.Members(ctx); membersErr == nil {
			var others []string
			for _, m := range members {
				if !slices.Contains(servers, m.ClientAddress) {
					others = append(others, m.ClientAddress)
				}
			}
			t.round(ctx, c, others)
		}
	}
	if !t.heard {
		return nil, fmt.Errorf("touch sessions: %w", errors.Join(context.Cause(ctx), route.Together(t.stood...)))
	}
	return t.results, nil
}

// toucher goes round nodes with what is left of a touch.
type toucher struct {
	clock   *clock
	tokens  []session.Token
	results []TouchResult
	open    []int // tokens that another node may touch yet
	heard   bool
	stood   []error // in the way
}

// round asks each node about the open tokens, until there are none.
func (t *toucher) round(ctx context.Context, c *Client, addresses []string) {
	for _, address := range addresses {
		if len(t.open) == 0 || ctx.Err() != nil {
			break
		}
		if err := c.attempt(ctx, address, t.ask); err != nil {
			t.stood = append(t.stood, err)
		}
	}
}

func (t *toucher) ask(ctx context.Context, cc *grpc.ClientConn) error {
	request := &holdfastv1.TouchSessionsRequest{}
	for _, i := range t.open {
		request.Tokens = append(request.Tokens, wire.TokenProto(t.tokens[i]))
	}
	sent, before := t.clock.look()
	answer, err := holdfastv1.NewSessionServiceClient(cc).TouchSessions(ctx, request)
	if err != nil {
		return err
	}
	_, suspensions := t.clock.look()
	if len(answer.GetResults()) != len(t.open) {
		return status.Error(codes.Internal, "node answered for other sessions than those it was asked about")
	}
	t.heard = true
	var open []int
	for n, p := range answer.GetResults() {
		i := t.open[n]
		result := TouchResult{ID: t.tokens[i].ID}
		if p.GetError() != nil {
			result.Err = wire.FromDetail(p.GetError(), "")
		} else if d := wire.PromiseFrom(p.GetSafeFor()); d >= 0 && suspensions == before { // else S5
			result.SafeUntil = sent.Add(d)
		}
		t.results[i] = result
		if result.Err != nil && (errors.Is(result.Err, session.ErrMoved) || route.Judge(result.Err) != route.Final) {
			open = append(open, i)
		}
	}
	t.open = open
	return nil
}
