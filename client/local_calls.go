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

	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Upgraded is a session that has become global.
type Upgraded struct {
	Session session.Session
	// Token is the global one. It is a secret.
	Token session.Token
	// SafeUntil is the promise; zero when nothing is promised now.
	SafeUntil time.Time
}

// UpgradeToken makes the local session of t global, for tools that hold no connection; [Session.Upgrade] says what that
// means. A global one is answered as it is. The session's node is looked for, as only that touches it: every endpoint
// is asked in turn, and the other members after them, until ctx ends or the answer is final. [session.ErrMoved] when no
// node is the session's, or it has been resumed since t was given. When ctx ends, the error wraps
// [session.ErrOutcomeUnknown] if a request was sent whose outcome is not known.
func (c *Client) UpgradeToken(ctx context.Context, t session.Token) (Upgraded, error) {
	var u Upgraded
	var asked writeOutcome
	err := c.atHome(ctx, func(ctx context.Context, cc *grpc.ClientConn) error {
		sent, before := c.clock.look()
		var node peer.Peer
		answer, err := holdfastv1.NewSessionServiceClient(cc).UpgradeSession(ctx,
			&holdfastv1.UpgradeSessionRequest{Token: wire.TokenProto(t)}, grpc.Peer(&node))
		if err != nil {
			if t.Local { // of a global one nothing is changed
				asked.refused(&node, err)
			}
			return err
		}
		g, err := wire.GrantFrom(answer.GetSession(), answer.GetToken(), answer.GetSafeFor())
		u = Upgraded{Session: g.Session, Token: g.Token}
		if _, suspensions := c.clock.look(); g.SafeFor >= 0 && suspensions == before { // else S5
			u.SafeUntil = sent.Add(g.SafeFor)
		}
		return err
	})
	if err != nil {
		return Upgraded{}, fmt.Errorf("upgrade session %s: %w", t.ID, asked.end(ctx, err))
	}
	return u, nil
}

// writeOutcome is what became of a write that is asked for at one node after the other.
type writeOutcome struct {
	unknown bool // a node may have done it, or may yet
}

// refused notes the error of a request, and the node that it was sent to, if any.
func (f *writeOutcome) refused(node *peer.Peer, err error) {
	if node.Addr != nil && !answered(err) || errors.Is(wire.Domain(err), session.ErrOutcomeUnknown) {
		f.unknown = true // whatever other nodes say of it
	}
}

// end returns the error of the call: [session.ErrOutcomeUnknown] too when ctx has ended before the fate was known.
func (f *writeOutcome) end(ctx context.Context, err error) error {
	if f.unknown && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, err)
	}
	return err
}

// answered reports whether an error of a call is a node's word.
func answered(err error) bool {
	code := status.Code(err)
	if code == codes.Unavailable {
		return wire.Domain(err) != err //nolint:errorlint // asks whether the status carried a reason
	}
	return code != codes.DeadlineExceeded && code != codes.Canceled
}

// about makes a call about the session of t at a node that knows it: any, or that of a local session.
func (c *Client) about(ctx context.Context, t session.Token, call func(context.Context, *grpc.ClientConn) error) error {
	if !t.Local {
		return c.unary(ctx, call)
	}
	return c.atHome(ctx, call)
}

// atHome makes a call at the node that serves a session, or alone knows it, and looks for that until ctx ends.
func (c *Client) atHome(ctx context.Context, call func(context.Context, *grpc.ClientConn) error) error {
	var trouble route.Failure
	for n := 1; ; n++ {
		decided, err := c.searchHome(ctx, nil, call)
		if decided {
			return err
		}
		if trouble.Met(err); !over(ctx) {
			trouble.Ended()
		}
		if slept := sleep(ctx, c.jitter.Wait(n, err)); slept != nil {
			return errors.Join(slept, trouble.Last())
		}
	}
}

// searchHome makes a call once at each node, until one does not say that the session is another's. It is decided, too,
// when all have said so; one of them may have before, which is heard. Otherwise the error joins what stood in the way,
// [ErrUnreachable] when no other node than those has answered.
func (c *Client) searchHome(ctx context.Context, heard error,
	call func(context.Context, *grpc.ClientConn) error,
) (decided bool, err error) {
	s := search{client: c, call: call, foreign: heard}
	servers := c.endpoints()
	if s.ask(ctx, servers) {
		return true, s.answer
	}
	var members []Member
	var trouble route.Failure
	if known, err := c.round(ctx, &trouble, membersInto(&members)); !known || err != nil {
		return false, s.undecided(err)
	}
	var others []string
	for _, m := range members {
		if !slices.Contains(servers, m.ClientAddress) {
			others = append(others, m.ClientAddress)
		}
	}
	switch {
	case s.ask(ctx, others):
		return true, s.answer
	case len(s.stood) == 0:
		return true, s.foreign
	default:
		return false, s.undecided(nil)
	}
}

// search is a call that goes round the nodes for the one that knows a session.
type search struct {
	client  *Client
	call    func(context.Context, *grpc.ClientConn) error
	answer  error   // of the node that knows it
	foreign error   // a node's word that the session is another's, or was moved
	stood   []error // in the way
}

// ask goes on until a node decides the call, and reports whether one did.
func (s *search) ask(ctx context.Context, addresses []string) bool {
	for _, address := range addresses {
		switch err := s.client.attempt(ctx, address, s.call); {
		case another(err):
			if !errors.Is(s.foreign, session.ErrMoved) {
				s.foreign = err
			}
		case route.Judge(err) == route.Final:
			s.answer = err
			return true
		default:
			s.stood = append(s.stood, err)
		}
	}
	return false
}

// undecided joins what stood in the way, err too, and tells in words alone what others have said of the session.
func (s *search) undecided(err error) error {
	err = route.Together(append(s.stood, err)...)
	if s.foreign != nil {
		err = errors.Join(err, foreignReportError{s.foreign})
	}
	return err
}

// foreignReportError is what a node says of a session that another may know. It is neither [session.ErrExpired] nor
// [session.ErrMoved], or a session whose node is silent would be taken for one that has ended.
type foreignReportError struct{ said error }

func (h foreignReportError) Error() string { return h.said.Error() }

// another reports whether a node says that a session is another's, or was.
func another(err error) bool {
	expired, ok := errors.AsType[*session.ExpiredError](err)
	return errors.Is(err, session.ErrMoved) || ok && expired.LocalTo != 0
}
