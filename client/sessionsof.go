package client

import (
	"context"
	"errors"
	"slices"
	"sync"

	"holdfast/session"
)

// maxIDs is how many ids of sessions an answer about connections holds: the product of [ConnectionOptions].Limit and
// SessionIDs is not larger.
const maxIDs = 100_000

// SessionsOfCaller are the sessions of one caller's connections.
type SessionsOfCaller struct {
	// IDs are in their order.
	IDs []session.ID
	// More is how many further sessions the connections have, because a node names only so many.
	More uint64
	// Claimed is how many connections only say that they are the caller's: their sessions are not among IDs.
	Claimed int
	// Silent are the errors of the nodes that did not answer: their sessions are missing.
	Silent map[session.Node]error
}

// SessionsOf asks every member for the sessions of the connections of one caller: those for whom the node vouches, by
// the name of a token or a certificate, or by a principal in the form SCHEME:ID that access lists of the tree have. The
// text must be the whole name. Sessions of clients without a connection are not found: those that make single calls,
// and those that are away. The error is that of [Client.Members]. Safe for concurrent use.
func SessionsOf(ctx context.Context, c *Client, principal string) (SessionsOfCaller, error) {
	found := SessionsOfCaller{Silent: make(map[session.Node]error)}
	members, err := c.Members(ctx)
	if err != nil {
		return found, err
	}
	told := make([]SessionsOfCaller, len(members))
	failed := make([]error, len(members))
	var asking sync.WaitGroup // at the same time: a node that is silent until ctx ends must not hide the others
	for i, m := range members {
		asking.Go(func() {
			if m.ClientAddress == "" {
				failed[i] = ErrUnreachable
				return
			}
			failed[i] = told[i].ask(ctx, c, m.ClientAddress, principal)
		})
	}
	asking.Wait()
	for i, m := range members {
		found.IDs = append(found.IDs, told[i].IDs...)
		found.More, found.Claimed = found.More+told[i].More, found.Claimed+told[i].Claimed
		if failed[i] != nil {
			found.Silent[m.Node] = failed[i]
		}
	}
	slices.Sort(found.IDs)
	found.IDs = slices.Compact(found.IDs) // a session that moved meanwhile
	return found, nil
}

// ask asks one node.
func (f *SessionsOfCaller) ask(ctx context.Context, c *Client, address, principal string) error {
	list, err := c.Connections(ctx, address, ConnectionOptions{
		Limit: MaxListedConnections, SessionIDs: maxIDs / MaxListedConnections, Principal: principal,
	})
	if err != nil {
		return err
	}
	for i := range list.Connections {
		one := &list.Connections[i]
		switch {
		case (one.Verified && one.Name == principal) || slices.Contains(one.Principals, principal):
		case one.Name == principal:
			f.Claimed++
			continue
		default:
			continue // the text is a part of its name
		}
		if one, err = whole(ctx, c, address, one); err != nil {
			return err
		}
		f.IDs = append(f.IDs, one.SessionIDs...)
		if named := uint64(len(one.SessionIDs)); one.Sessions > named {
			f.More += one.Sessions - named
		}
	}
	f.More += list.Total - min(list.Total, uint64(len(list.Connections))) // each has one at least
	return nil
}

// whole returns a connection with more ids, if it has more sessions than ids.
func whole(ctx context.Context, c *Client, address string, one *ClientConnection) (*ClientConnection, error) {
	if len(one.SessionIDs) == 0 || one.Sessions <= uint64(len(one.SessionIDs)) {
		return one, nil
	}
	list, err := c.Connections(ctx, address, ConnectionOptions{Limit: 1, Session: one.SessionIDs[0], SessionIDs: maxIDs})
	switch {
	case errors.Is(err, session.ErrNoConnection) || err == nil && len(list.Connections) == 0:
		return one, nil // it has gone, and its sessions elsewhere
	case err != nil:
		return one, err
	case list.Connections[0].Address != one.Address:
		return one, nil // the session is another connection's by now
	}
	return &list.Connections[0], nil
}
