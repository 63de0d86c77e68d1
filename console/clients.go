package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"holdfast/client"
	"holdfast/session"
	"holdfast/session/words"
)

// connectedSession is a session with the connection that serves it.
type connectedSession struct {
	ID    session.ID
	Owner session.Node
	client.ClientConnection
}

// PrincipalNames lists the principals of the client.
func (s connectedSession) PrincipalNames() string {
	return words.OrDash(strings.Join(s.Principals, ", "))
}

// principalSearch lists the sessions on the connections of clients with a principal.
type principalSearch struct {
	Found []connectedSession
	// More counts further sessions on these connections, and Connections further connections that match.
	More, Connections uint64
	// Unavailable says which members were not searched, and why.
	Unavailable []string
}

// findClients searches the connections of all members by principal.
func (c *Console) findClients(q *request, s *search) (*principalSearch, error) {
	if s.Label+s.Scope+s.MinAge+s.MaxAge+s.MinLeft+s.MaxLeft != "" {
		return nil, &inputError{"principal", "can be combined with owner only"}
	}
	owner, err := nodeOf("owner", s.Owner)
	if err != nil {
		return nil, err
	}
	members, err := q.caller.Members(q.ctx)
	if err != nil {
		return nil, err
	}
	members = slices.DeleteFunc(members, func(m client.Member) bool { return owner != 0 && m.Node != owner })
	lists, unavailable := make([]client.ConnectionList, len(members)), make([]string, len(members))
	var asking sync.WaitGroup
	for i, m := range members {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(q.ctx, statusTimeout)
			defer cancel()
			list, err := q.caller.Connections(ctx, m.ClientAddress, client.ConnectionOptions{
				Principal: s.Principal, Limit: pageSize, SessionIDs: pageSize,
			})
			if err != nil {
				unavailable[i] = fmt.Sprintf("Node %d was not searched: %s.", m.Node, noStatusText(err))
			}
			lists[i] = list
		})
	}
	asking.Wait()
	found := &principalSearch{Unavailable: slices.DeleteFunc(unavailable, func(why string) bool { return why == "" })}
	for i, m := range members {
		found.add(m.Node, lists[i])
	}
	slices.SortFunc(found.Found, func(a, b connectedSession) int { return cmp.Compare(a.ID, b.ID) })
	if n := len(found.Found); n > pageSize {
		found.More += uint64(n - pageSize)
		found.Found = found.Found[:pageSize]
	}
	return found, nil
}

// add adds a member's connections.
func (f *principalSearch) add(owner session.Node, list client.ConnectionList) {
	for i := range list.Connections {
		one := &list.Connections[i]
		for _, id := range one.SessionIDs {
			f.Found = append(f.Found, connectedSession{ID: id, Owner: owner, ClientConnection: *one})
		}
		if n := uint64(len(one.SessionIDs)); one.Sessions > n {
			f.More += one.Sessions - n
		}
	}
	if n := uint64(len(list.Connections)); list.Total > n {
		f.Connections += list.Total - n
	}
}

// findClient adds a session's client to its page, or the reason why the client is unknown.
func (s *sessionPage) findClient(q *request) {
	ctx, cancel := context.WithTimeout(q.ctx, statusTimeout)
	defer cancel()
	one, err := client.ConnectionOf(ctx, q.caller.Client, s.ID, s.Session.Owner)
	if err != nil {
		s.NoClient = words.Unserved(s.Session.Owner, err)
		return
	}
	s.Client = &connectedSession{ID: s.ID, Owner: s.Session.Owner, ClientConnection: one}
}
