package unary

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/peer"

	"holdfast/session"
	"holdfast/transport/wire"
)

// Outcome tracks whether a failed write that was sent to several nodes may have taken effect. Not safe for concurrent
// use. The zero value is a write that was not sent.
type Outcome struct {
	unknown bool // a node may have done the write, or may do it yet
}

// Refused notes the error of a request. The address of node is nil if the request was sent to no node. No answer of a
// later node makes a known outcome of an unknown one.
func (o *Outcome) Refused(node *peer.Peer, err error) {
	if node.Addr != nil && !answered(err) || errors.Is(wire.Domain(err), session.ErrOutcomeUnknown) {
		o.unknown = true
	}
}

// End returns the error of the whole call. It adds [session.ErrOutcomeUnknown] to err if ctx has ended while the
// outcome is unknown.
func (o *Outcome) End(ctx context.Context, err error) error {
	if o.unknown && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, err)
	}
	return err
}
