package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/cmd/internal/top"
	"holdfast/session"
	"holdfast/session/words"
)

func clusterWatch(c *cli) *cobra.Command {
	var every time.Duration
	cmd := &cobra.Command{
		Use: "watch", Short: "Print what happens to the nodes of the cluster", Args: noArgs,
		Long: `Print a line for each change of the nodes named by --endpoints and of the cluster, until Ctrl-C: who
leads, which nodes answer and serve, warnings, drains, freezes and members. First come the nodes as
they are.

The command asks all nodes every so often: what comes and goes between two looks is not seen. The
time of a line is that of the look. With -o json each line is an object.`,
		Example: `  holdfast cluster watch --endpoints localhost:7400,localhost:7410,localhost:7420
  holdfast cluster watch --every 200ms -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.target.with(func(cl *client.Client) error { return watchCluster(cmd.Context(), c, cl, every) })
		},
	}
	cmd.Flags().Var(arg.AtLeast(&every, time.Second, top.LeastEvery), "every", "time between two looks")
	return cmd
}

// clusterEvent is something that has happened to a cluster. Node is 0 and Endpoint empty for what is about the whole.
type clusterEvent struct {
	Time     time.Time    `json:"time"`
	Event    string       `json:"event"`
	Node     session.Node `json:"node,omitempty"`
	Endpoint string       `json:"endpoint,omitempty"`
	Text     string       `json:"text"`
}

// clusterLook is a cluster at a moment: the answer of each endpoint in order, and the members if a node told them.
type clusterLook struct {
	nodes   []nodeLook
	members map[session.Node]client.Member
}

// nodeLook is the answer of an endpoint, or why there is none.
type nodeLook struct {
	endpoint string
	status   client.Status
	silent   string
}

func watchCluster(ctx context.Context, c *cli, cl *client.Client, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var was *clusterLook
	for {
		is := c.target.lookAt(ctx, cl, max(every, time.Second))
		if ctx.Err() != nil {
			return nil
		}
		now := time.Now().Round(0)
		for _, e := range eventsBetween(was, is) {
			e.Time = now
			if err := c.out.printLine(e, e.line()); err != nil {
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
	return fmt.Sprintf("%s  %-9s  %-10s  %s", words.Moment(e.Time), escaped(who), e.Event, escaped(e.Text))
}

// lookAt asks all endpoints and, for the members, one of them.
func (t *target) lookAt(ctx context.Context, cl *client.Client, patience time.Duration) *clusterLook {
	ctx, cancel := context.WithTimeout(ctx, min(patience, t.timeout))
	defer cancel()
	look := &clusterLook{nodes: make([]nodeLook, len(t.endpoints))}
	var all sync.WaitGroup
	for i, endpoint := range t.endpoints {
		all.Go(func() {
			st, err := t.statusOf(ctx, cl, endpoint)
			look.nodes[i] = nodeLook{endpoint: endpoint, status: st}
			if err != nil {
				look.nodes[i].silent = t.brief(endpoint, err)
			}
		})
	}
	all.Go(func() {
		members, err := cl.MembersOfLeader(ctx) // a node that was removed may list itself for ever
		if err != nil {
			return
		}
		look.members = make(map[session.Node]client.Member, len(members))
		for _, m := range members {
			look.members[m.Node] = m
		}
	})
	all.Wait()
	return look
}

// carrying returns the look with what is known from the look before, where this one does not know: nodes that do not
// answer, and members.
func (l *clusterLook) carrying(before *clusterLook) *clusterLook {
	if before == nil {
		return l
	}
	if l.members == nil {
		l.members = before.members
	}
	for i := range l.nodes {
		if l.nodes[i].silent != "" {
			l.nodes[i].status = before.nodes[i].status
		}
	}
	return l
}

// best returns the answer of the node that knows most; nil for none.
func (l *clusterLook) best() *client.Status {
	var best *client.Status
	for i := range l.nodes {
		if n := &l.nodes[i]; n.silent == "" && (best == nil || client.Outranks(&n.status, best)) {
			best = &n.status
		}
	}
	return best
}

// eventsBetween returns what has happened between two looks; all that there is if there is none before.
func eventsBetween(was, is *clusterLook) (all []clusterEvent) {
	for i := range is.nodes {
		var before *nodeLook
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

// since returns what has happened to a node.
func (n *nodeLook) since(was *nodeLook) (all []clusterEvent) {
	say := func(of *client.Status) func(event, format string, args ...any) {
		return func(event, format string, args ...any) {
			all = append(all, clusterEvent{
				Event: event, Node: of.Node, Endpoint: n.endpoint, Text: fmt.Sprintf(format, args...),
			})
		}
	}
	s := &n.status
	switch {
	case n.silent != "" && was == nil:
		say(s)("silent", "does not answer: %s", n.silent)
	case n.silent != "" && was.silent == "":
		say(&was.status)("silent", "does not answer: %s", n.silent)
	case n.silent != "":
	case was == nil || was.silent != "":
		say(s)("answers", "%s of term %d, version %s", s.Role, s.Term, words.OrDash(s.Version))
		serves(say(s), &client.Status{Ready: true}, s)
	default:
		serves(say(s), &was.status, s)
	}
	return all
}

// serves says what has changed in how a node serves.
func serves(say func(event, format string, args ...any), was, is *client.Status) {
	switch {
	case !is.Ready && (was.Ready || withoutFigures(was.NotReadyBecause) != withoutFigures(is.NotReadyBecause)):
		say("not-ready", "does not serve: %s", words.OrDash(is.NotReadyBecause))
	case is.Ready && !was.Ready:
		say("ready", "serves")
	}
	switch {
	case withoutFigures(is.Warning) == withoutFigures(was.Warning):
	case is.Warning != "":
		say("warning", "%s", is.Warning)
	default:
		say("no-warning", "warns no longer: %s", was.Warning)
	}
	switch {
	case is.Drain != nil && was.Drain == nil:
		say("drain", "is being drained")
	case is.Drain != nil && is.Drain.Done && !was.Drain.Done:
		say("drained", "is drained")
	case is.Drain == nil && was.Drain != nil:
		say("undrain", "is not being drained any more")
	}
}

// withoutFigures returns a reason without the words that have digits: how much or how long is no news.
func withoutFigures(reason string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(reason), func(word string) bool {
		return strings.ContainsAny(word, "0123456789")
	}), " ")
}

// clusterSince returns what has happened to the whole cluster.
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
		say("no-leader", "no leader is known in term %d", is.Term)
	}
	switch {
	case is.Freezing != nil && was.Freezing == nil:
		say("frozen", "nothing expires for %s, by %s: %s", words.Span(is.Freezing.Left), words.OrDash(is.Freezing.By),
			words.OrDash(is.Freezing.Why))
	case is.Freezing == nil && was.Freezing != nil:
		say("thawed", "sessions expire again")
	}
	return all
}

// membersBetween returns how the members have changed, in the order of their numbers.
func membersBetween(was, is map[session.Node]client.Member) (all []clusterEvent) {
	say := func(n session.Node, event, text string) {
		all = append(all, clusterEvent{Event: event, Node: n, Text: text})
	}
	for n := session.Node(1); n <= session.MaxNode; n++ {
		before, had := was[n]
		now, has := is[n]
		switch {
		case has && !had:
			say(n, "added", "is a member now, as "+votesText(now.Voter))
		case had && !has:
			say(n, "removed", "is no member any more")
		case !has:
		case now.Voter && !before.Voter:
			say(n, "promoted", "votes now")
		case before.Voter && !now.Voter:
			say(n, "demoted", "is an observer now")
		}
	}
	return all
}

func votesText(votes bool) string {
	return map[bool]string{true: "a voter", false: "an observer"}[votes]
}
