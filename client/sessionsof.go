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

// SessionsOfCaller lists the sessions of one caller's connections.
type SessionsOfCaller struct {
	// IDs are sorted.
	IDs []session.ID
	// More counts further sessions of the connections, because a node returns only so many ids.
	More uint64
	// Claimed counts connections that claim the caller's name without proof: their sessions are not among IDs.
	Claimed int
	// Silent has the errors of the nodes that did not answer: their sessions are missing.
	Silent map[session.Node]error
}

// SessionsOf asks every member for the sessions of one caller's connections: those that the node has authenticated, by
// the name of a token or a certificate, or by a principal in the form SCHEME:ID of the tree's access lists. The text
// must be the whole name. The result leaves out sessions of clients without a connection: clients that make single
// calls, and disconnected clients. The error is that of [Client.Members]. Safe for concurrent use.
func SessionsOf(ctx context.Context, c *Client, principal string) (SessionsOfCaller, error) {
	found := SessionsOfCaller{Silent: make(map[session.Node]error)}
	members, err := c.Members(ctx)
	if err != nil {
		return found, err
	}
	answers := make([]SessionsOfCaller, len(members))
	failed := make([]error, len(members))
	var asking sync.WaitGroup // at the same time: a node that is silent until ctx ends must not hide the others
	for i, m := range members {
		asking.Go(func() {
			if m.ClientAddress == "" {
				failed[i] = ErrUnreachable
				return
			}
			failed[i] = answers[i].ask(ctx, c, m.ClientAddress, principal)
		})
	}
	asking.Wait()
	for i, m := range members {
		found.IDs = append(found.IDs, answers[i].IDs...)
		found.More, found.Claimed = found.More+answers[i].More, found.Claimed+answers[i].Claimed
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
			continue // the text is only a part of the name
		}
		if one, err = whole(ctx, c, address, one); err != nil {
			return err
		}
		f.IDs = append(f.IDs, one.SessionIDs...)
		if named := uint64(len(one.SessionIDs)); one.Sessions > named {
			f.More += one.Sessions - named
		}
	}
	f.More += list.Total - min(list.Total, uint64(len(list.Connections))) // each connection has at least one session
	return nil
}

// whole returns a connection with all its ids, if the first answer left some out.
func whole(ctx context.Context, c *Client, address string, one *ClientConnection) (*ClientConnection, error) {
	if len(one.SessionIDs) == 0 || one.Sessions <= uint64(len(one.SessionIDs)) {
		return one, nil
	}
	list, err := c.Connections(ctx, address, ConnectionOptions{Limit: 1, Session: one.SessionIDs[0], SessionIDs: maxIDs})
	switch {
	case errors.Is(err, session.ErrNoConnection) || err == nil && len(list.Connections) == 0:
		return one, nil // the connection is gone, and its sessions have moved
	case err != nil:
		return one, err
	case list.Connections[0].Address != one.Address:
		return one, nil // the session belongs to another connection by now
	}
	return &list.Connections[0], nil
}
