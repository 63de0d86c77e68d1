package session

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/session"
)

// selection is the sessions that a command line names or selects.
type selection struct {
	ids []session.ID
	// incomplete reports that a node that may have more of the sessions did not answer. A message has named the node.
	incomplete bool
}

// missing returns the error of an incomplete selection.
func (s selection) missing() error {
	if !s.incomplete {
		return nil
	}
	return errors.New("not all nodes answered, and their sessions are missing: run the command again when they do")
}

// check refuses arguments that do not go together, because a kill cannot be undone.
func (f *killFlags) check(given []string) error {
	selects := len(f.labels) > 0 || f.owner != 0
	_, err := cli.ParseScope(f.scope)
	switch {
	case err != nil:
		return err
	case f.caller != "" && (len(given) > 0 || selects || f.scope != "any"):
		return cli.Usage("--principal does not combine with IDs, --label, --owner or --scope")
	case len(given) > 0 && (selects || f.scope != "any"):
		return cli.Usage("name sessions by ID, or select them with --label, --owner and --scope, not both")
	case len(given) == 0 && !selects && f.caller == "":
		return cli.Usage("name sessions by ID, or select them with --label, --owner or --principal")
	}
	return nil
}

// selectSessions returns the sessions that the command line names or selects.
func selectSessions(
	ctx context.Context, env *cli.Env, cl *client.Client, f *killFlags, given []string,
) (selection, error) {
	if err := f.check(given); err != nil {
		return selection{}, err
	}
	switch {
	case f.caller != "":
		return sessionsOfCaller(ctx, env, cl, f.caller)
	case len(given) > 0:
		ids, err := parseIDs(given)
		return selection{ids: ids}, err
	}
	return matchingSessions(ctx, env, cl, f)
}

// parseIDs reads ids, and drops duplicates.
func parseIDs(given []string) ([]session.ID, error) {
	ids := make([]session.ID, 0, len(given))
	for _, w := range given {
		id, err := cli.ParseID(w)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// matchingSessions returns the sessions that match the flags. Any node lists the global sessions; each member lists its
// own local sessions.
func matchingSessions(ctx context.Context, env *cli.Env, cl *client.Client, f *killFlags) (selection, error) {
	filter, err := cli.SelectLabels(f.labels)
	if err != nil {
		return selection{}, err
	}
	var found selection
	scope, err := cli.ParseScope(f.scope)
	if err != nil {
		return selection{}, err
	}
	o := client.ListOptions{
		Owner: session.Node(f.owner), Labels: filter, Scope: session.ScopeGlobal, PageSize: session.MaxPage,
	}
	if scope != session.ScopeLocal {
		if found.ids, err = listIDs(ctx, env, cl, o); err != nil {
			return found, err
		}
	}
	if scope != session.ScopeGlobal {
		o.Scope = session.ScopeLocal
		local, failed := localSessions(ctx, env, cl, o)
		if failed != nil {
			return found, failed
		}
		found.ids, found.incomplete = append(found.ids, local.ids...), local.incomplete
	}
	slices.Sort(found.ids)
	found.ids = slices.Compact(found.ids) // a session may have become global meanwhile
	return found, nil
}

// localSessions asks every member for its local sessions, or only the owner that the options name. It prints a message
// about members that do not answer.
func localSessions(ctx context.Context, env *cli.Env, cl *client.Client, o client.ListOptions) (selection, error) {
	addresses, err := memberAddresses(ctx, env, cl)
	if err != nil {
		return selection{}, err
	}
	nodes := slices.Sorted(maps.Keys(addresses))
	if o.Owner != 0 {
		nodes = slices.DeleteFunc(nodes, func(n session.Node) bool { return n != o.Owner })
	}
	ids, errs := make([][]session.ID, len(nodes)), make([]error, len(nodes))
	var asking sync.WaitGroup // in parallel: a node that does not answer must not delay the others
	for i, node := range nodes {
		asking.Go(func() { ids[i], errs[i] = localAt(ctx, env, addresses[node], o) })
	}
	asking.Wait()
	if ctx.Err() != nil {
		return selection{}, context.Cause(ctx)
	}
	var found selection
	for i, node := range nodes {
		found.ids = append(found.ids, ids[i]...)
		if errs[i] != nil {
			found.incomplete = true
			env.Out.Messagef("holdfast: node %d did not list its local sessions, which are missing (--scope global leaves "+
				"local sessions out): %s\n", node, cli.OneLine(errors.New(env.Cluster.Cause(addresses[node], errs[i]))))
		}
	}
	return found, nil
}

// localAt returns the local sessions of the node at an address.
func localAt(ctx context.Context, env *cli.Env, address string, o client.ListOptions) ([]session.ID, error) {
	if address == "" {
		return nil, errors.New("the cluster knows no client address of the node")
	}
	cl, err := env.Cluster.NewClient(client.Config{Endpoints: []string{address}, OnlyEndpoints: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = cl.Close() }() // always nil
	return listIDs(ctx, env, cl, o)
}

// listIDs returns the ids of a list. Each page is a call with its own time limit.
func listIDs(ctx context.Context, env *cli.Env, cl *client.Client, o client.ListOptions) ([]session.ID, error) {
	var ids []session.ID
	for {
		page, err := cli.Timed(ctx, env.Cluster, func(ctx context.Context) (client.Page, error) { return cl.List(ctx, o) })
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

// memberAddresses returns an address of each member: the endpoint of the command line that is this member, or else the
// member's client address, which may be reachable for nodes only.
func memberAddresses(ctx context.Context, env *cli.Env, cl *client.Client) (map[session.Node]string, error) {
	members, err := cli.Timed(ctx, env.Cluster, cl.Members)
	if err != nil {
		return nil, err
	}
	addresses := make(map[session.Node]string, len(members))
	for _, m := range members {
		addresses[m.Node] = m.ClientAddress
	}
	calling, cancel := env.Cluster.WithTimeout(ctx)
	defer cancel()
	at := make([]session.Node, len(env.Cluster.Endpoints))
	var asking sync.WaitGroup
	for i, endpoint := range env.Cluster.Endpoints {
		asking.Go(func() {
			if st, failed := env.Cluster.StatusOf(calling, cl, endpoint); failed == nil {
				at[i] = st.Node
			}
		})
	}
	asking.Wait()
	for i, endpoint := range env.Cluster.Endpoints {
		if _, member := addresses[at[i]]; member {
			addresses[at[i]] = endpoint
		}
	}
	return addresses, nil
}

// sessionsOfCaller returns the sessions of a caller's connections, and prints a message about missing sessions.
func sessionsOfCaller(ctx context.Context, env *cli.Env, cl *client.Client, caller string) (selection, error) {
	found, err := cli.Timed(ctx, env.Cluster, func(ctx context.Context) (client.SessionsOfCaller, error) {
		return client.SessionsOf(ctx, cl, caller)
	})
	if err != nil {
		return selection{}, err
	}
	for _, node := range slices.Sorted(maps.Keys(found.Silent)) {
		env.Out.Messagef("holdfast: node %d did not answer, and its sessions are missing: %s\n", node,
			cli.OneLine(found.Silent[node]))
	}
	if found.Claimed > 0 {
		env.Out.Messagef("holdfast: %d connections claim the name %q without proof: their sessions are left out\n",
			found.Claimed, caller)
	}
	if found.More > 0 {
		env.Out.Messagef("holdfast: %d more sessions are not in this list: run the command again afterwards\n", found.More)
	}
	return selection{ids: found.IDs, incomplete: len(found.Silent) > 0}, nil
}
