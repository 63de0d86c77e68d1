package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"holdfast/client"
	"holdfast/session"
)

// chosenSessions are the sessions that a command line names or selects.
type chosenSessions struct {
	ids []session.ID
	// incomplete says that a node did not answer, which may have more of them. The user has been told which.
	incomplete bool
}

// missing returns the error of a command that has done all that it could with the sessions that were found.
func (s chosenSessions) missing() error {
	if !s.incomplete {
		return nil
	}
	return errors.New("not all nodes answered, and their sessions are missing: run the command again once they do")
}

// check returns a usage error for arguments that do not go together. What would be ignored is refused: a kill is final.
func (f *killFlags) check(given []string) error {
	selects := len(f.labels) > 0 || f.owner != 0
	_, known := scopes()[f.scope]
	switch {
	case !known:
		return usage("--scope %q: want any, global or local", f.scope)
	case f.principal != "" && (len(given) > 0 || selects || f.scope != "any"):
		return usage("--principal selects by itself: leave IDs, --label, --owner and --scope away")
	case len(given) > 0 && (selects || f.scope != "any"):
		return usage("name sessions by ID, or select them with --label, --owner and --scope: not both")
	case len(given) == 0 && !selects && f.principal == "":
		return usage("name sessions by ID, or select them with --label, --owner or --principal")
	}
	return nil
}

// chosen returns the sessions that the command line names or selects.
func (c *cli) chosen(ctx context.Context, cl *client.Client, f *killFlags, given []string) (chosenSessions, error) {
	if err := f.check(given); err != nil {
		return chosenSessions{}, err
	}
	switch {
	case f.principal != "":
		return ofPrincipal(ctx, c, cl, f.principal)
	case len(given) > 0:
		ids, err := namedIDs(given)
		return chosenSessions{ids: ids}, err
	}
	return c.selected(ctx, cl, f)
}

// namedIDs reads the ids of arguments, each once.
func namedIDs(given []string) ([]session.ID, error) {
	ids := make([]session.ID, 0, len(given))
	for _, w := range given {
		id, err := idArgument(w)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// selected returns the sessions that match the flags: the global ones as any node lists them, and the local ones as
// each member does, because a node knows its own alone.
func (c *cli) selected(ctx context.Context, cl *client.Client, f *killFlags) (chosenSessions, error) {
	filter, err := selectedLabels(f.labels)
	if err != nil {
		return chosenSessions{}, err
	}
	var found chosenSessions
	scope := scopes()[f.scope]
	o := client.ListOptions{
		Owner: session.Node(f.owner), Labels: filter, Scope: session.ScopeGlobal, PageSize: session.MaxPage,
	}
	if scope != session.ScopeLocal {
		if found.ids, err = allPages(ctx, c.target, cl, o); err != nil {
			return found, err
		}
	}
	if scope != session.ScopeGlobal {
		o.Scope = session.ScopeLocal
		local, failed := localSessions(ctx, c, cl, o)
		if failed != nil {
			return found, failed
		}
		found.ids, found.incomplete = append(found.ids, local.ids...), local.incomplete
	}
	slices.Sort(found.ids)
	found.ids = slices.Compact(found.ids) // a session may have become global meanwhile
	return found, nil
}

// localSessions asks every member for its local sessions, or that one alone which the options name as the owner. It
// complains of those that do not answer.
func localSessions(ctx context.Context, c *cli, cl *client.Client, o client.ListOptions) (chosenSessions, error) {
	places, err := c.target.places(ctx, cl)
	if err != nil {
		return chosenSessions{}, err
	}
	nodes := slices.Sorted(maps.Keys(places))
	if o.Owner != 0 {
		nodes = slices.DeleteFunc(nodes, func(n session.Node) bool { return n != o.Owner })
	}
	ids, errs := make([][]session.ID, len(nodes)), make([]error, len(nodes))
	var asking sync.WaitGroup // at the same time: a node that is silent must not hold the others up
	for i, node := range nodes {
		asking.Go(func() { ids[i], errs[i] = c.target.localAt(ctx, places[node], o) })
	}
	asking.Wait()
	if ctx.Err() != nil {
		return chosenSessions{}, context.Cause(ctx)
	}
	var found chosenSessions
	for i, node := range nodes {
		found.ids = append(found.ids, ids[i]...)
		if errs[i] != nil {
			found.incomplete = true
			c.out.complain("holdfast: node %d did not list its local sessions, which are missing (--scope global leaves "+
				"local sessions out): %s\n", node, oneLine(errors.New(c.target.brief(places[node], errs[i]))))
		}
	}
	return found, nil
}

// localAt returns the local sessions of the node at an address.
func (t *target) localAt(ctx context.Context, address string, o client.ListOptions) ([]session.ID, error) {
	if address == "" {
		return nil, errors.New("the cluster knows no client address of it")
	}
	cl, err := t.client(client.Config{Endpoints: []string{address}, OnlyEndpoints: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = cl.Close() }() // always nil
	return allPages(ctx, t, cl, o)
}

// allPages returns the sessions of a list. Each page is a call with its own time limit.
func allPages(ctx context.Context, t *target, cl *client.Client, o client.ListOptions) ([]session.ID, error) {
	var ids []session.ID
	for {
		page, err := onePage(ctx, t, func(ctx context.Context) (client.Page, error) { return cl.List(ctx, o) })
		if err != nil {
			return ids, err
		}
		for _, l := range page.Sessions {
			ids = append(ids, l.Session.ID)
		}
		if o.PageToken = page.Next; page.Next == "" {
			return ids, nil
		}
	}
}

// places returns where each member can be asked: at the endpoint that is this node, or else at the client address that
// the members have of it, which may be good for the nodes alone.
func (t *target) places(ctx context.Context, cl *client.Client) (map[session.Node]string, error) {
	members, err := onePage(ctx, t, cl.Members)
	if err != nil {
		return nil, err
	}
	places := make(map[session.Node]string, len(members))
	for _, m := range members {
		places[m.Node] = m.ClientAddress
	}
	calling, cancel := t.bounded(ctx)
	defer cancel()
	at := make([]session.Node, len(t.endpoints))
	var asking sync.WaitGroup
	for i, endpoint := range t.endpoints {
		asking.Go(func() {
			if st, failed := t.statusOf(calling, cl, endpoint); failed == nil {
				at[i] = st.Node
			}
		})
	}
	asking.Wait()
	for i, endpoint := range t.endpoints {
		if _, member := places[at[i]]; member {
			places[at[i]] = endpoint
		}
	}
	return places, nil
}
