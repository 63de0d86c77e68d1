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

// Any makes a call at one server after the other, with a back-off after each round, until a server decides the call,
// each server that answers denies the client (see [route.Denied]), or ctx ends. When ctx ends, the error wraps its
// cause and the last obstacle.
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

// round makes a call at one server after the other, until a server decides the call or ctx ends. It may continue with
// the learnt addresses, see triesOthers; began is the start of the call. The error of an undecided round is its
// obstacle, which is also recorded in trouble.
func (n *Nodes) round(ctx context.Context, began time.Time, trouble *route.Failure, call Call) (
	decided bool, err error,
) {
	decided, err = n.oneOf(ctx, n.Order(), trouble, call)
	if !decided && !Over(ctx) && n.triesOthers(began, trouble) {
		decided, err = n.oneOf(ctx, n.others(), trouble, call)
	}
	if decided {
		return true, err
	}
	return false, trouble.Last()
}

// triesOthers reports whether a round that no server has decided continues with the learnt addresses: when no server
// has answered, and when their answers have decided nothing for the time limit of an attempt. The nodes of all servers
// may be cut off from the other nodes. An earlier switch would cost a call time: perhaps only other nodes can reach
// learnt addresses.
func (n *Nodes) triesOthers(began time.Time, trouble *route.Failure) bool {
	return !trouble.Answered() || time.Since(began) >= n.cfg.Attempt
}

// oneOf makes a call at one address after the other, until a node decides the call or ctx ends.
func (n *Nodes) oneOf(ctx context.Context, addresses []string, trouble *route.Failure, call Call) (bool, error) {
	for _, address := range addresses {
		err := n.at(ctx, address, call)
		if route.Classify(err) == route.Final {
			return true, err
		}
		if !Over(ctx) || trouble.Last() == nil { // an attempt that ctx cut short says nothing of the node
			trouble.Met(err)
		}
		if Over(ctx) {
			break
		}
	}
	return false, nil
}

// backOff ends the nth round of a call, and waits before the next round: a back-off, on top of the last server's retry
// time. The error is not nil when no round follows: the servers deny the client, or ctx ends first. It wraps the cause
// and the last obstacle.
func (n *Nodes) backOff(ctx context.Context, nth int, trouble *route.Failure) error {
	if denial := trouble.Denial(); denial != nil {
		return denial
	}
	if !Over(ctx) {
		trouble.Ended()
	}
	if slept := session.Sleep(ctx, n.cfg.Jitter.Wait(nth, trouble.Last())); slept != nil {
		return errors.Join(slept, trouble.Last())
	}
	return nil
}

// Over reports whether ctx has ended or its deadline has passed. On a busy machine an attempt may find the deadline
// passed before the timer of ctx fires.
func Over(ctx context.Context) bool {
	deadline, has := ctx.Deadline()
	return ctx.Err() != nil || has && time.Until(deadline) <= 0
}
