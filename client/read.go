package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"holdfast/client/internal/unary"
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
	f, state, err := unary.Read(ctx, c.nodes,
		func(ctx context.Context, cc *grpc.ClientConn, o session.ReadOptions) (unary.Answer[Found], error) {
			answer, err := holdfastv1.NewSessionServiceClient(cc).GetSession(ctx, &holdfastv1.GetSessionRequest{
				SessionId: uint64(id), AllowReadOnly: o.AllowReadOnly, SeenIndex: o.Seen,
			})
			if err != nil {
				return unary.Answer[Found]{}, err
			}
			return found(answer)
		})
	if err != nil {
		return Found{}, fmt.Errorf("show session %s: %w", id, err)
	}
	f.State = state
	return f, nil
}

// found reads the answer of a node to [Client.Get].
func found(answer *holdfastv1.GetSessionResponse) (unary.Answer[Found], error) {
	f := Found{Remaining: wire.PromiseFrom(answer.GetRemaining())}
	var err error
	if p := answer.GetCertificate(); p != nil {
		var cert session.Certificate
		cert, err = wire.CertificateFrom(p)
		f.Certificate = &cert
	} else {
		f.Session, err = wire.SessionFrom(answer.GetSession())
	}
	return unary.Answer[Found]{Shown: f, State: answer.GetState(), Local: f.local()}, err
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
	page, state, err := unary.Read(ctx, c.nodes,
		func(ctx context.Context, cc *grpc.ClientConn, read session.ReadOptions) (unary.Answer[Page], error) {
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
			return unary.Answer[Page]{Shown: page, State: answer.GetState()}, err
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
