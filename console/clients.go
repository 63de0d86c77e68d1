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

// served is a session with the connection that serves it.
type served struct {
	ID    session.ID
	Owner session.Node
	client.ClientConnection
}

// Who names the principals of the connection's client.
func (s served) Who() string { return words.OrDash(strings.Join(s.Principals, ", ")) }

// byPrincipal is a page of the sessions that the connections of some clients serve.
type byPrincipal struct {
	Found []served
	// More is how many more sessions these connections serve, and connections there are more that match.
	More, Connections uint64
	// Silent says which members said nothing, and why.
	Silent []string
}

// findClients asks the members for the connections of clients, by the principal that is looked for.
func (c *Console) findClients(q *request, s *search) (*byPrincipal, error) {
	if s.Label+s.Scope+s.MinAge+s.MaxAge+s.MinLeft+s.MaxLeft != "" {
		return nil, &inputError{"principal", "is looked for alone, or together with owner"}
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
	lists, silent := make([]client.ConnectionList, len(members)), make([]string, len(members))
	var asking sync.WaitGroup
	for i, m := range members {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(q.ctx, askTimeout)
			defer cancel()
			list, err := q.caller.Connections(ctx, m.ClientAddress, client.ConnectionOptions{
				Principal: s.Principal, Limit: pageSize, SessionIDs: pageSize,
			})
			if err != nil {
				silent[i] = fmt.Sprintf("Node %d is not shown: %s.", m.Node, brief(err))
			}
			lists[i] = list
		})
	}
	asking.Wait()
	found := &byPrincipal{Silent: slices.DeleteFunc(silent, func(why string) bool { return why == "" })}
	for i, m := range members {
		found.add(m.Node, lists[i])
	}
	slices.SortFunc(found.Found, func(a, b served) int { return cmp.Compare(a.ID, b.ID) })
	if n := len(found.Found); n > pageSize {
		found.More += uint64(n - pageSize)
		found.Found = found.Found[:pageSize]
	}
	return found, nil
}

// add adds what a member said.
func (f *byPrincipal) add(owner session.Node, list client.ConnectionList) {
	for i := range list.Connections {
		one := &list.Connections[i]
		for _, id := range one.SessionIDs {
			f.Found = append(f.Found, served{ID: id, Owner: owner, ClientConnection: *one})
		}
		if n := uint64(len(one.SessionIDs)); one.Sessions > n {
			f.More += one.Sessions - n
		}
	}
	if n := uint64(len(list.Connections)); list.Total > n {
		f.Connections += list.Total - n
	}
}

// clientOf adds to a session's story where its client is, or why that is not known.
func (s *story) clientOf(q *request) {
	ctx, cancel := context.WithTimeout(q.ctx, askTimeout)
	defer cancel()
	one, err := client.ConnectionOf(ctx, q.caller.Client, s.ID, s.Session.Owner)
	if err != nil {
		s.NoClient = words.Unserved(s.Session.Owner, err)
		return
	}
	s.Client = &served{ID: s.ID, Owner: s.Session.Owner, ClientConnection: one}
}
