package unary

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	"holdfast/client/internal/route"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Any makes a call at one server after the other, with a back-off after each round, until a server decides it, each one
// that answers denies the client (see [route.Denied]), or ctx ends. When ctx ends, the error wraps its cause and the last
// obstacle.
func (n *Nodes) Any(ctx context.Context, call Call) error {
	var trouble route.Failure
	began := time.Now()
	for nth := 1; ; nth++ {
		if decided, err := n.round(ctx, began, &trouble, call); decided {
			return err
		}
		if err := n.backOff(ctx, nth, &trouble); err != nil {
			return err
		}
	}
}

// Leader makes a call at the node that leads, as Any does. A node that does not lead names the one that does, which
// need not be a server.
func (n *Nodes) Leader(ctx context.Context, call Call) error {
	return n.Any(ctx, func(ctx context.Context, cc *grpc.ClientConn) error {
		err := call(ctx, cc)
		if e, ok := errors.AsType[*session.NotLeaderError](wire.Domain(err)); ok && e.Address != "" {
			return n.at(ctx, e.Address, call)
		}
		return err
	})
}

// round makes a call at one server after the other, until a server decides it or ctx ends. It may go on with the
// learnt addresses, see asksOthers; began is when the call began. The error of an undecided round is its obstacle,
// which trouble takes too.
func (n *Nodes) round(ctx context.Context, began time.Time, trouble *route.Failure, call Call) (
	decided bool, err error,
) {
	decided, err = n.oneOf(ctx, n.Order(), trouble, call)
	if !decided && !over(ctx) && n.asksOthers(began, trouble) {
		decided, err = n.oneOf(ctx, n.others(), trouble, call)
	}
	if decided {
		return true, err
	}
	return false, trouble.Last()
}

// asksOthers reports whether a round that no server has decided goes on with the learnt addresses: when no server has
// answered, and when they have decided nothing for as long as an attempt may take. The nodes of all servers may be
// cut off from the others. Sooner it would cost a call time: learnt addresses may be good for other nodes alone.
func (n *Nodes) asksOthers(began time.Time, trouble *route.Failure) bool {
	return !trouble.Answered() || time.Since(began) >= n.cfg.Attempt
}

// oneOf makes a call at one address after the other, until a node decides it or ctx ends.
func (n *Nodes) oneOf(ctx context.Context, addresses []string, trouble *route.Failure, call Call) (bool, error) {
	for _, address := range addresses {
		err := n.at(ctx, address, call)
		if route.Judge(err) == route.Final {
			return true, err
		}
		if !over(ctx) || trouble.Last() == nil { // an attempt that ctx cut short says nothing of the node
			trouble.Met(err)
		}
		if over(ctx) {
			break
		}
	}
	return false, nil
}

// backOff ends the nth round of a call, and waits before the next one: a back-off, on top of what the last server asks
// for. The error is not nil when there is no next one: the servers deny the client, or ctx ends first, and it wraps the
// cause and the last obstacle.
func (n *Nodes) backOff(ctx context.Context, nth int, trouble *route.Failure) error {
	if denial := trouble.Denial(); denial != nil {
		return denial
	}
	if !over(ctx) {
		trouble.Ended()
	}
	if slept := session.Sleep(ctx, n.cfg.Jitter.Wait(nth, trouble.Last())); slept != nil {
		return errors.Join(slept, trouble.Last())
	}
	return nil
}

// over reports whether ctx has ended or its deadline has passed. On a busy machine an attempt may find the deadline
// passed before the timer of ctx fires.
func over(ctx context.Context) bool {
	deadline, has := ctx.Deadline()
	return ctx.Err() != nil || has && time.Until(deadline) <= 0
}
