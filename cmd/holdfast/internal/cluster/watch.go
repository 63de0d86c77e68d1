package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/cmd/internal/top"
	"holdfast/session"
	"holdfast/session/words"
)

// watchFlags are the flags of "cluster watch".
type watchFlags struct {
	interval time.Duration
}

func newWatch(env *cli.Env) *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use: "watch", Short: "Print events of the nodes of the cluster", Args: cli.NoArgs,
		Long: `Print a line for each change of the nodes at --endpoints and of the cluster, until Ctrl-C: the
leader, which nodes are reachable and ready, warnings, drains, freezes and members. The first lines
show the current state.

The command polls all nodes every --interval, and misses what begins and ends between two polls. The
time of a line is the time of the poll. With -o json each line is an object.`,
		Example: `  holdfast cluster watch --endpoints localhost:7400,localhost:7410,localhost:7420
  holdfast cluster watch --interval 200ms -o json`,
		RunE: cli.Run(env, &f, runWatch),
	}
	cmd.Flags().Var(arg.AtLeast(&f.interval, time.Second, top.MinInterval), "interval", "time between two polls")
	return cmd
}

func runWatch(ctx context.Context, env *cli.Env, f *watchFlags, _ []string) error {
	return env.Cluster.Connect(func(cl *client.Client) error { return watchCluster(ctx, env, cl, f.interval) })
}

// clusterEvent is a change of a cluster. Node is 0 and Endpoint empty for a change of the whole cluster.
type clusterEvent struct {
	Time     time.Time    `json:"time"`
	Event    string       `json:"event"`
	Node     session.Node `json:"node,omitempty"`
	Endpoint string       `json:"endpoint,omitempty"`
	Text     string       `json:"text"`
}

// clusterState is a cluster at one poll: the answer of each endpoint in order, and the members, nil if unknown.
type clusterState struct {
	nodes   []nodeState
	members map[session.Node]client.Member
}

// nodeState is the answer of an endpoint. unreachable is the cause when there is no answer.
type nodeState struct {
	endpoint    string
	status      client.Status
	unreachable string
}

func watchCluster(ctx context.Context, env *cli.Env, cl *client.Client, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var was *clusterState
	for {
		is := poll(ctx, env, cl, max(every, time.Second))
		if ctx.Err() != nil {
			return nil
		}
		now := time.Now().Round(0)
		for _, e := range eventsBetween(was, is) {
			e.Time = now
			if err := env.Out.PrintLine(e, e.line()); err != nil {
				return err
			}
		}
		was = is.carrying(was)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// line is the event for people.
func (e *clusterEvent) line() string {
	who := "cluster"
	switch {
	case e.Node != 0:
		who = fmt.Sprintf("node %d", e.Node)
	case e.Endpoint != "":
		who = e.Endpoint
	}
	return fmt.Sprintf("%s  %-9s  %-15s  %s", words.Moment(e.Time), cli.Escape(who), e.Event, cli.Escape(e.Text))
}

// poll asks all endpoints, and the leader for the members.
func poll(ctx context.Context, env *cli.Env, cl *client.Client, timeout time.Duration) *clusterState {
	ctx, cancel := context.WithTimeout(ctx, min(timeout, env.Cluster.CallTimeout))
	defer cancel()
	state := &clusterState{nodes: make([]nodeState, len(env.Cluster.Endpoints))}
	var all sync.WaitGroup
	for i, endpoint := range env.Cluster.Endpoints {
		all.Go(func() {
			st, err := env.Cluster.StatusOf(ctx, cl, endpoint)
			state.nodes[i] = nodeState{endpoint: endpoint, status: st}
			if err != nil {
				state.nodes[i].unreachable = env.Cluster.Cause(endpoint, err)
			}
		})
	}
	all.Go(func() {
		members, err := cl.MembersOfLeader(ctx) // a removed node may list itself as a member for ever
		if err != nil {
			return
		}
		state.members = make(map[session.Node]client.Member, len(members))
		for _, m := range members {
			state.members[m.Node] = m
		}
	})
	all.Wait()
	return state
}

// carrying fills the gaps of a state from the state before: the status of nodes that do not answer, and the members.
func (l *clusterState) carrying(before *clusterState) *clusterState {
	if before == nil {
		return l
	}
	if l.members == nil {
		l.members = before.members
	}
	for i := range l.nodes {
		if l.nodes[i].unreachable != "" {
			l.nodes[i].status = before.nodes[i].status
		}
	}
	return l
}

// best returns the most recent status of the cluster, nil for none.
func (l *clusterState) best() *client.Status {
	var best *client.Status
	for i := range l.nodes {
		if n := &l.nodes[i]; n.unreachable == "" && (best == nil || client.Outranks(&n.status, best)) {
			best = &n.status
		}
	}
	return best
}

// eventsBetween returns the changes between two states. Without a state before, it returns events for the present
// state.
func eventsBetween(was, is *clusterState) (all []clusterEvent) {
	for i := range is.nodes {
		var before *nodeState
		if was != nil {
			before = &was.nodes[i]
		}
		all = append(all, is.nodes[i].since(before)...)
	}
	var before *client.Status
	if was != nil {
		before = was.best()
	}
	if now := is.best(); now != nil {
		all = append(all, clusterSince(before, now)...)
	}
	if was != nil && was.members != nil && is.members != nil {
		all = append(all, membersBetween(was.members, is.members)...)
	}
	return all
}

// since returns the changes of a node.
func (n *nodeState) since(was *nodeState) (all []clusterEvent) {
	say := func(of *client.Status) func(event, format string, args ...any) {
		return func(event, format string, args ...any) {
			all = append(all, clusterEvent{
				Event: event, Node: of.Node, Endpoint: n.endpoint, Text: fmt.Sprintf(format, args...),
			})
		}
	}
	s := &n.status
	switch {
	case n.unreachable != "" && was == nil:
		say(s)("unreachable", "does not answer: %s", n.unreachable)
	case n.unreachable != "" && was.unreachable == "":
		say(&was.status)("unreachable", "does not answer: %s", n.unreachable)
	case n.unreachable != "":
	case was == nil || was.unreachable != "":
		say(s)("reachable", "%s of term %d, version %s", s.Role, s.Term, words.OrDash(s.Version))
		readinessEvents(say(s), &client.Status{Ready: true}, s)
	default:
		readinessEvents(say(s), &was.status, s)
	}
	return all
}

// readinessEvents reports changes of readiness, warning and drain.
func readinessEvents(say func(event, format string, args ...any), was, is *client.Status) {
	switch {
	case !is.Ready && (was.Ready || withoutFigures(was.NotReadyBecause) != withoutFigures(is.NotReadyBecause)):
		say("not-ready", "is not ready: %s", words.OrDash(is.NotReadyBecause))
	case is.Ready && !was.Ready:
		say("ready", "is ready")
	}
	switch {
	case withoutFigures(is.Warning) == withoutFigures(was.Warning):
	case is.Warning != "":
		say("warning", "%s", is.Warning)
	default:
		say("warning-cleared", "no longer warns: %s", was.Warning)
	}
	switch {
	case is.Drain != nil && was.Drain == nil:
		say("draining", "is being drained")
	case is.Drain != nil && is.Drain.Done && !was.Drain.Done:
		say("drained", "is drained")
	case is.Drain == nil && was.Drain != nil:
		say("undrained", "is no longer being drained")
	}
}

// withoutFigures returns a reason without the words that have digits, because a change of only a number is no event.
func withoutFigures(reason string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(reason), func(word string) bool {
		return strings.ContainsAny(word, "0123456789")
	}), " ")
}

// clusterSince returns the changes of the whole cluster.
func clusterSince(was, is *client.Status) (all []clusterEvent) {
	say := func(event, format string, args ...any) {
		all = append(all, clusterEvent{Event: event, Text: fmt.Sprintf(format, args...)})
	}
	if was == nil {
		was = &client.Status{}
	}
	switch {
	case is.Leader != 0 && (is.Leader != was.Leader || is.Term != was.Term):
		say("leader", "node %d leads term %d", is.Leader, is.Term)
	case is.Leader == 0 && (was.Leader != 0 || was.ClusterID == ""):
		say("no-leader", "no leader in term %d", is.Term)
	}
	switch {
	case is.Freezing != nil && was.Freezing == nil:
		say("frozen", "expiry is suspended for %s, by %s: %s", words.Span(is.Freezing.Left), words.OrDash(is.Freezing.By),
			words.OrDash(is.Freezing.Why))
	case is.Freezing == nil && was.Freezing != nil:
		say("thawed", "sessions expire again")
	}
	return all
}

// membersBetween returns the changes of the members, in the order of their numbers.
func membersBetween(was, is map[session.Node]client.Member) (all []clusterEvent) {
	say := func(n session.Node, event, text string) {
		all = append(all, clusterEvent{Event: event, Node: n, Text: text})
	}
	for n := session.Node(1); n <= session.MaxNode; n++ {
		before, had := was[n]
		now, has := is[n]
		switch {
		case has && !had:
			say(n, "added", "joined as "+votesText(now.Voter))
		case had && !has:
			say(n, "removed", "is no longer a member")
		case !has:
		case now.Voter && !before.Voter:
			say(n, "promoted", "is a voter now")
		case before.Voter && !now.Voter:
			say(n, "demoted", "is an observer now")
		}
	}
	return all
}

func votesText(votes bool) string {
	return map[bool]string{true: "a voter", false: "an observer"}[votes]
}
