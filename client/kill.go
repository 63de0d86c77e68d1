package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"holdfast/client/internal/unary"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Kill ends sessions, whoever holds them, and returns the result for each, in their order. Kill is for operators: it
// needs no token. ids are 1 to [session.MaxKill]; the certificates keep why. A local session is known to its own node
// alone: if the node that answers names another node, Kill asks that node, at the address in the list of members, under
// the same name of the caller. The error of a session wraps [ErrUnreachable] when its node does not answer. After an
// error some sessions may have ended; a repeat is safe, because ids are never reused. Safe for concurrent use.
func (c *Client) Kill(ctx context.Context, ids []session.ID, why string) ([]session.Killed, error) {
	killed, err := killThrough(ctx, c.nodes.Any, ids, why)
	if err != nil {
		return nil, fmt.Errorf("kill sessions: %w", err)
	}
	killElsewhere(ctx, c, ids, why, killed)
	return killed, nil
}

// killElsewhere asks the nodes that alone may know the sessions that were refused, all at the same time.
func killElsewhere(ctx context.Context, c *Client, ids []session.ID, why string, killed []session.Killed) {
	elsewhere := refusedFor(killed)
	if len(elsewhere) == 0 {
		return
	}
	members, err := c.Members(ctx)
	var asking sync.WaitGroup
	for node, at := range elsewhere {
		where := slices.IndexFunc(members, func(m Member) bool { return m.Node == node && m.ClientAddress != "" })
		if err == nil && where < 0 {
			continue // a node that is no member serves no client: what the answer says is all that can be known
		}
		asking.Go(func() {
			some := make([]session.ID, len(at))
			for k, i := range at {
				some[k] = ids[i]
			}
			again, failed := []session.Killed(nil), err
			if failed == nil {
				again, failed = killAt(ctx, c, members[where].ClientAddress, some, why)
			}
			for k, i := range at { // only this node knows these sessions
				killed[i] = killedAt(again, k, node, some[k], failed)
			}
		})
	}
	asking.Wait()
}

// killedAt is the result for a session that only one node may know.
func killedAt(all []session.Killed, k int, node session.Node, id session.ID, failed error) session.Killed {
	if failed != nil {
		return session.Killed{Err: fmt.Errorf("session %v may be local to node %d: %w", id, node, failed)}
	}
	return all[k]
}

// killAt asks one node.
func killAt(ctx context.Context, c *Client, address string, ids []session.ID, why string) ([]session.Killed, error) {
	through := func(ctx context.Context, call unary.Call) error { return c.nodes.At(ctx, address, call) }
	return killThrough(ctx, through, ids, why)
}

// refusedFor returns the positions of the refused sessions that only another node may know, by node.
func refusedFor(killed []session.Killed) map[session.Node][]int {
	elsewhere := make(map[session.Node][]int)
	for i := range killed {
		if expired, ok := errors.AsType[*session.ExpiredError](killed[i].Err); ok && expired.LocalTo != 0 {
			elsewhere[expired.LocalTo] = append(elsewhere[expired.LocalTo], i)
		}
	}
	return elsewhere
}

// killThrough sends one request to the nodes that through chooses.
func killThrough(ctx context.Context, through func(context.Context, unary.Call) error, ids []session.ID,
	why string,
) ([]session.Killed, error) {
	request := &holdfastv1.KillSessionsRequest{Ids: make([]uint64, len(ids)), Why: why}
	for i, id := range ids {
		request.Ids[i] = uint64(id)
	}
	var answer *holdfastv1.KillSessionsResponse
	err := through(ctx, func(ctx context.Context, cc *grpc.ClientConn) (err error) {
		answer, err = holdfastv1.NewAdminServiceClient(cc).KillSessions(ctx, request)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(answer.GetResults()) != len(ids):
		return nil, fmt.Errorf("got %d results for %d sessions", len(answer.GetResults()), len(ids))
	}
	killed := make([]session.Killed, len(ids))
	for i, p := range answer.GetResults() {
		killed[i].Index = p.GetIndex()
		if p.GetError() != nil {
			killed[i].Err = wire.FromDetail(p.GetError(), "")
		}
	}
	return killed, nil
}
