package leader

import (
	"context"

	"holdfast/session"
)

// Answer handles a request without a stream.
func (t *Tracker) Answer(ctx context.Context, node session.Node, r *session.Request) (session.Reply, error) {
	return t.requests.answer(ctx, node, r)
}
