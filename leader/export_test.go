package leader

import (
	"context"

	"holdfast/session"
)

// Answer handles a request without a stream.
func (t *Tracker) Answer(ctx context.Context, node session.Node, r *session.Request) (session.Reply, error) {
	type outcome struct {
		reply session.Reply
		err   error
	}
	told := make(chan outcome, 1)
	ends := closes{requests: t.requests}
	t.requests.answer(ctx, node, r, &ends, func(reply session.Reply, err error) { told <- outcome{reply, err} })
	ends.submit()
	o := <-told
	return o.reply, o.err
}

// Bounds of a Forward stream.
const (
	ForwardedBytes    = forwardedBytes
	MaxForwardedBytes = maxForwardedBytes
	MaxAcknowledges   = maxAcknowledges
	MaxRefusals       = maxRefusals
)
