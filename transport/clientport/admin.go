package clientport

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/authz"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
)

// adminServer serves AdminService. Its methods return domain errors, which the port's interceptor converts to statuses.
type adminServer struct {
	holdfastv1.UnimplementedAdminServiceServer
	admin session.Administration
}

// state returns the node's state. Call it after reading the contents of an answer (N4 seen index).
func (s *adminServer) state() *holdfastv1.NodeState { return wire.StateProto(s.admin.State()) }

// ExplainSession says what keeps a session alive, or how it ended.
func (s *adminServer) ExplainSession(ctx context.Context,
	req *holdfastv1.ExplainSessionRequest,
) (*holdfastv1.ExplainSessionResponse, error) {
	id, err := wire.IDFrom("session_id", req.GetSessionId())
	if err != nil {
		return nil, err
	}
	one, vigil, err := s.admin.Explain(ctx, id, req.GetSeenIndex())
	if expired, ok := errors.AsType[*session.ExpiredError](err); ok && expired.Certificate != nil {
		return &holdfastv1.ExplainSessionResponse{
			Certificate: wire.CertificateProto(*expired.Certificate), State: s.state(),
		}, nil
	}
	if err != nil {
		return nil, err
	}
	return &holdfastv1.ExplainSessionResponse{
		Session: wire.SessionProto(one), Vigil: wire.VigilProto(&vigil), State: s.state(),
	}, nil
}

// ListDeaths lists certificates, the newest first.
func (s *adminServer) ListDeaths(ctx context.Context,
	req *holdfastv1.ListDeathsRequest,
) (*holdfastv1.ListDeathsResponse, error) {
	q := session.DeathQuery{Size: int(cmp.Or(req.GetPageSize(), defaultPage)), Seen: req.GetSeenIndex()}
	if q.Size > session.MaxPage {
		return nil, pageSizeError()
	}
	var err error
	if q.Before, err = deathTokenFrom(req.GetPageToken()); err != nil {
		return nil, err
	}
	if q.Filter, err = wire.DeathFilterFrom(req.GetFilter()); err != nil {
		return nil, wire.Within("filter", err)
	}
	page, err := s.admin.Deaths(ctx, q)
	if err != nil {
		return nil, err
	}
	answer := &holdfastv1.ListDeathsResponse{Forgotten: page.Forgotten}
	next, size := page.Next, 0
	for i := range page.Certificates {
		p := wire.CertificateProto(page.Certificates[i])
		if size += proto.Size(p); i > 0 && size > wire.DefaultMessageBytes {
			next, answer.Forgotten = page.Numbers[i-1], false // as in pageProto
			break
		}
		answer.Certificates = append(answer.Certificates, p)
	}
	if next != 0 {
		answer.NextPageToken = base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, next))
	}
	answer.State = s.state()
	return answer, nil
}

// deathTokenFrom reads a page token of ListDeaths. A certificate's number has the form of an id.
func deathTokenFrom(token string) (uint64, error) {
	id, err := pageTokenFrom(token)
	return uint64(id), err
}

// KillSessions ends sessions for an operator.
func (s *adminServer) KillSessions(ctx context.Context,
	req *holdfastv1.KillSessionsRequest,
) (*holdfastv1.KillSessionsResponse, error) {
	kill, err := wire.KillFrom(req)
	if err != nil {
		return nil, err
	}
	if kill.By, err = operator(ctx); err != nil {
		return nil, err
	}
	killed, err := s.admin.Kill(ctx, kill)
	if err != nil {
		return nil, err
	}
	noteKilled(ctx, killed)
	answer := &holdfastv1.KillSessionsResponse{Results: make([]*holdfastv1.KillResult, len(killed))}
	for i, one := range killed {
		answer.Results[i] = &holdfastv1.KillResult{
			SessionId: uint64(kill.IDs[i]), Index: one.Index, Error: wire.Detail(one.Err),
		}
	}
	answer.State = s.state()
	return answer, nil
}

// noteKilled adds the number of ended sessions to the audit. If none ended, it records a failure.
func noteKilled(ctx context.Context, killed []session.Killed) {
	ended := 0
	var failed error
	for i := range killed {
		if killed[i].Err == nil {
			ended++
		} else if failed == nil {
			failed = killed[i].Err
		}
	}
	authz.Note(ctx, fmt.Sprintf("%d of %d ended", ended, len(killed)))
	if ended == 0 {
		authz.NoteFailure(ctx, failed)
	}
}

// operator returns the name of the operator who makes a call, or the address of a nameless one, for permanent records.
func operator(ctx context.Context) (string, error) {
	caller, err := ratelimit.CallerOf(ctx)
	if err != nil {
		return "", err
	}
	from := ""
	if p, ok := peer.FromContext(ctx); ok {
		from = p.Addr.String()
	}
	return fit(cmp.Or(caller.Name, from)), nil
}

// fit cuts a name to the form of records: at most [session.MaxClientName] bytes of UTF-8. A certificate may have any
// bytes.
func fit(name string) string {
	if len(name) > session.MaxClientName {
		name = name[:session.MaxClientName]
	}
	return strings.ToValidUTF8(name, "")
}
