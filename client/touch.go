package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/client/internal/route"
	"holdfast/client/internal/unary"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// TouchResult is the result of a touch by token.
type TouchResult struct {
	ID session.ID
	// SafeUntil is the end of the promise; zero without a promise.
	SafeUntil time.Time
	// Err is nil, or the reason why the session was not touched.
	Err error
}

// Touch touches sessions by token, for tools that hold no connection. It accepts 1 to [session.MaxTouchBatch] tokens
// and returns the results in their order. Only the owner of a session can touch it. So Touch asks each server in turn,
// then the other members, about the sessions that no node has touched yet. The error is not nil when the number of
// tokens is wrong, a [session.FieldError], or when no node returned results: [ErrUnreachable] if none answered. Safe
// for concurrent use.
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
	servers := c.nodes.Order()
	t.round(ctx, c.nodes, servers)
	if len(t.open) > 0 {
		if members, membersErr := c.Members(ctx); membersErr == nil {
			var others []string
			for _, m := range members {
				if !slices.Contains(servers, m.ClientAddress) {
					others = append(others, m.ClientAddress)
				}
			}
			t.round(ctx, c.nodes, others)
		}
	}
	if !t.answered {
		return nil, fmt.Errorf("touch sessions: %w", errors.Join(context.Cause(ctx), route.Together(t.errs...)))
	}
	return t.results, nil
}

// toucher asks nodes about the sessions of a [Client.Touch].
type toucher struct {
	clock    *clock
	tokens   []session.Token
	results  []TouchResult
	open     []int   // indexes of the tokens that another node may still touch
	answered bool    // a node gave results
	errs     []error // of nodes that gave none
}

// round asks each node about the open tokens, until none is left.
func (t *toucher) round(ctx context.Context, nodes *unary.Nodes, addresses []string) {
	for _, address := range addresses {
		if len(t.open) == 0 || ctx.Err() != nil {
			break
		}
		if err := nodes.At(ctx, address, t.ask); err != nil {
			t.errs = append(t.errs, err)
		}
	}
}

// ask asks one node about the open tokens. Tokens that the node cannot touch stay open, unless its answer is final.
func (t *toucher) ask(ctx context.Context, cc *grpc.ClientConn) error {
	request := &holdfastv1.TouchSessionsRequest{}
	for _, i := range t.open {
		request.Tokens = append(request.Tokens, wire.TokenProto(t.tokens[i]))
	}
	sent, before := t.clock.now()
	answer, err := holdfastv1.NewSessionServiceClient(cc).TouchSessions(ctx, request)
	if err != nil {
		return err
	}
	_, suspensions := t.clock.now()
	if len(answer.GetResults()) != len(t.open) {
		return status.Error(codes.Internal, "node answered about sessions that the request does not name")
	}
	t.answered = true
	var open []int
	for n, p := range answer.GetResults() {
		i := t.open[n]
		result := TouchResult{ID: t.tokens[i].ID}
		if p.GetError() != nil {
			result.Err = wire.FromDetail(p.GetError(), "")
		} else if d := wire.PromiseFrom(p.GetSafeFor()); d >= 0 && suspensions == before { // S5
			result.SafeUntil = sent.Add(d)
		}
		t.results[i] = result
		if result.Err != nil && (errors.Is(result.Err, session.ErrMoved) || route.Classify(result.Err) != route.Final) {
			open = append(open, i)
		}
	}
	t.open = open
	return nil
}
