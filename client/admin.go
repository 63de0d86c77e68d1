package client

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"holdfast/client/internal/unary"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Explained is the result of [Client.Explain].
type Explained struct {
	// Session and Vigil (what keeps the session alive) are zero after the session's end.
	Session session.Session
	Vigil   session.Vigil
	// Certificate is nil while the session lives.
	Certificate *session.Certificate
	// State is as in [Found].
	State session.NodeState
}

// Explain reports what keeps a session alive, or how the session ended. Explain reads like [Client.Get], but read-only
// nodes do not answer. Safe for concurrent use.
func (c *Client) Explain(ctx context.Context, id session.ID) (Explained, error) {
	e, state, err := unary.Read(ctx, c.nodes,
		func(ctx context.Context, cc *grpc.ClientConn, o session.ReadOptions) (unary.Answer[Explained], error) {
			answer, err := holdfastv1.NewAdminServiceClient(cc).ExplainSession(ctx, &holdfastv1.ExplainSessionRequest{
				SessionId: uint64(id), SeenIndex: o.Seen,
			})
			if err != nil {
				return unary.Answer[Explained]{}, err
			}
			e, err := explained(answer)
			own := e.Session.Local || e.Certificate != nil && e.Certificate.Index == 0
			return unary.Answer[Explained]{Shown: e, State: answer.GetState(), Local: own}, err
		})
	if err != nil {
		return Explained{}, fmt.Errorf("explain session %s: %w", id, err)
	}
	e.State = state
	return e, nil
}

func explained(answer *holdfastv1.ExplainSessionResponse) (Explained, error) {
	if p := answer.GetCertificate(); p != nil {
		cert, err := wire.CertificateFrom(p)
		return Explained{Certificate: &cert}, err
	}
	s, err := wire.SessionFrom(answer.GetSession())
	if err != nil {
		return Explained{}, err
	}
	v, err := wire.VigilFrom(answer.GetVigil())
	if err != nil {
		return Explained{}, err
	}
	return Explained{Session: s, Vigil: *v}, nil
}

// DeathOptions describes which ends of sessions to list.
type DeathOptions struct {
	session.DeathFilter
	// PageSize is the largest number of certificates on a page, 1 to [session.MaxPage]; 0 is the node's choice.
	PageSize int
	// PageToken is [DeathPage].Next of the page before; empty for the first page.
	PageToken string
}

// DeathPage is a page of certificates, the newest end first.
type DeathPage struct {
	// Certificates may be empty although the page is not the last.
	Certificates []session.Certificate
	// Next is the token of the next page, empty after the last.
	Next string
	// Forgotten says, on the last page, that the cluster no longer keeps the certificates of older ends.
	Forgotten bool
	// State is as in [Found].
	State session.NodeState
}

// Deaths returns one page of the death certificates that the cluster keeps, or of the certificates of local sessions at
// the node that answers. Each page is a separate read, as in [Client.List]. Safe for concurrent use.
func (c *Client) Deaths(ctx context.Context, o DeathOptions) (DeathPage, error) {
	if o.PageSize < 0 || o.PageSize > session.MaxPage {
		return DeathPage{}, fmt.Errorf("list deaths: %w",
			&session.FieldError{Field: "page_size", Limit: fmt.Sprintf("0 to %d", session.MaxPage)})
	}
	page, state, err := unary.Read(ctx, c.nodes,
		func(ctx context.Context, cc *grpc.ClientConn, read session.ReadOptions) (unary.Answer[DeathPage], error) {
			answer, err := holdfastv1.NewAdminServiceClient(cc).ListDeaths(ctx, &holdfastv1.ListDeathsRequest{
				PageSize: uint32(o.PageSize), PageToken: o.PageToken, SeenIndex: read.Seen,
				Filter: wire.DeathFilterProto(&o.DeathFilter),
			})
			page := DeathPage{Next: answer.GetNextPageToken(), Forgotten: answer.GetForgotten()}
			for _, p := range answer.GetCertificates() {
				one, convertErr := wire.CertificateFrom(p)
				err = errors.Join(err, convertErr)
				page.Certificates = append(page.Certificates, one)
			}
			return unary.Answer[DeathPage]{Shown: page, State: answer.GetState()}, err
		})
	if err != nil {
		return DeathPage{}, fmt.Errorf("list deaths: %w", err)
	}
	page.State = state
	return page, nil
}
