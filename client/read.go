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

// Found is the result of [Client.Get]: a living session, or the certificate of its end.
type Found struct {
	// Session is zero after the end of the session.
	Session session.Session
	// Certificate is nil while the session lives.
	Certificate *session.Certificate
	// Remaining is the time until expiry if the session stays silent; negative when the node does not know the time, as
	// for global sessions at a read-only node.
	Remaining time.Duration
	// State is the state of the node that answered, zero when the node reported none. The result shows the cluster at
	// State.Index. From a node in [session.ModeReadOnly] the result may be old.
	State session.NodeState
}

// local reports whether the result is about a local session. Its node alone decides about the session, so the result is
// never old, at any index of the node (N4 seen index).
func (f Found) local() bool {
	return f.Session.Local || f.Certificate != nil && f.Certificate.Index == 0
}

// Get returns a session, or the certificate of its end. The read is linearizable, unless [Config].ReadOnly allows a
// read-only node to answer, and never shows an older state than this client has seen, see [Client.SeenIndex]. Only its
// node knows a local session: when a node answers that the id is another node's, Get asks each other node once. Safe
// for concurrent use.
//
// The error is [session.ErrExpired] when the cluster knows neither the session nor a certificate. It is also
// [session.ErrReadOnly] when a read-only node gave this answer: the session may have been opened since the state that
// the node shows. While the node of a local session is silent or refuses, the answer is undecided. The error is then
// not [session.ErrExpired] but [ErrUnreachable], or it wraps the refusal, and does not say whether the session lives.
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

// ListOptions describes which sessions to list: sessions that match all fields that are set.
type ListOptions struct {
	// Owner is the node that serves the session; 0 is any node.
	Owner session.Node
	// Labels are labels that the session has. An empty value matches any value of the key.
	Labels map[string]string
	// MinAge and MaxAge bound the time since the session was opened; 0 is no bound.
	MinAge, MaxAge time.Duration
	// MinRemaining and MaxRemaining bound the time until expiry; 0 is no bound.
	MinRemaining, MaxRemaining time.Duration
	// Scope is global or local; 0 is both. A node lists only its own local sessions.
	Scope session.Scope
	// Soonest asks for the sessions with the least time left, the soonest to expire first, on one page. PageToken must
	// be empty, and [Page].Next is empty too. A read-only node refuses Soonest.
	Soonest bool
	// PageSize is the largest number of sessions on a page, 1 to [session.MaxPage]; 0 is the node's choice.
	PageSize int
	// PageToken is [Page].Next of the page before; empty for the first page.
	PageToken string
}

// Page is a page of sessions in the order of ids, or by the time left if [ListOptions].Soonest is set.
type Page struct {
	// Sessions may be empty although the page is not the last. A Remaining is negative when the node does not know it.
	Sessions []session.Listed
	// Next is the token of the next page, empty after the last.
	Next string
	// State is as in [Found].
	State session.NodeState
}

func (o *ListOptions) order() holdfastv1.SessionOrder {
	if o.Soonest {
		return holdfastv1.SessionOrder_SESSION_ORDER_REMAINING
	}
	return holdfastv1.SessionOrder_SESSION_ORDER_UNSPECIFIED
}

// List returns one page of sessions. Each page is a separate read, with the guarantees of [Client.Get]: sessions may
// appear or end between two pages. A read-only node does not know the time until expiry, so it refuses filters by
// MinRemaining and MaxRemaining with a [session.FieldError]. Safe for concurrent use.
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
				SeenIndex: read.Seen, Order: o.order(),
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
