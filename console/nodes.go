package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/client"
	"holdfast/session"
)

// member is a member of the cluster with its own status.
type member struct {
	client.Member
	client.Status
	// NoStatus is why there is no status of the member; empty if there is one.
	NoStatus string
	// Inaccessible: the member may well answer others, but the caller has no permission, or its address is unknown
	// here.
	Inaccessible bool
	// Own: the member is the node of this console.
	Own bool
	// Behind is how many log entries the member has yet to apply, as the leader counts them.
	Behind uint64
	// IfItFails describes the quorum without this member.
	IfItFails string
}

// cluster is the members, and the most important facts about them.
type cluster struct {
	Members []member
	// Removed says that the node of this console is no longer a member; empty while it is one.
	Removed string
	Alarms  []string
	Events  []historyEntry
	// Leader is the status of the leader, nil if no leader has answered. Other nodes may know a leader.
	Leader *client.Status
	// Freezing is nil while the cluster is not frozen.
	Freezing *client.Freezing
	// Voters is the number of voters, and Quorum how many of them must agree.
	Voters, Quorum int
}

// statusTimeout bounds the wait for a member's status, so that a failed member does not delay the page.
const statusTimeout = 1500 * time.Millisecond

// clusterOf asks all members for their status.
func (c *Console) clusterOf(q *request) (cluster, error) {
	members, err := q.caller.Members(q.ctx)
	if err != nil {
		return cluster{}, err
	}
	k := cluster{Members: make([]member, len(members)), Events: c.history.newestFirst()}
	if c.removed() {
		k.Removed = removedText
	}
	var asking sync.WaitGroup
	for i, m := range members {
		asking.Go(func() {
			one := &k.Members[i]
			one.Member, one.Own = m, m.Node == c.node
			if m.ClientAddress == "" {
				one.NoStatus, one.Inaccessible = "address unknown: set it in peers", true
				return
			}
			ctx, cancel := context.WithTimeout(q.ctx, statusTimeout)
			defer cancel()
			status, err := q.caller.Status(ctx, m.ClientAddress)
			if err != nil {
				one.NoStatus = noStatusText(err)
				one.Inaccessible = errors.Is(err, session.ErrUnauthenticated) || errors.Is(err, session.ErrForbidden)
				return
			}
			one.Status = status
		})
	}
	asking.Wait()
	k.evaluate()
	return k, nil
}

// noStatusText says briefly why there is no status of a member.
func noStatusText(err error) string {
	switch {
	case errors.Is(err, session.ErrUnauthenticated):
		return "not authenticated: this node cannot forward browser certificates, open that node's own console"
	case errors.Is(err, session.ErrForbidden):
		return "permission denied"
	case errors.Is(err, client.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return "unreachable"
	default:
		return err.Error()
	}
}

// evaluate finds the leader, the quorum, and problems.
func (k *cluster) evaluate() {
	slices.SortFunc(k.Members, func(a, b member) int { return int(a.Member.Node) - int(b.Member.Node) })
	answering := k.countVoters()
	if k.Removed != "" {
		k.Alarms = append(k.Alarms, k.Removed)
	}
	if k.Freezing != nil {
		k.alarm("Expiry is frozen for %v more by %s: %s", k.Freezing.Left.Round(time.Second), k.Freezing.By,
			k.Freezing.Why)
	}
	if !k.hasLeader() {
		k.alarm("No leader is known: no writes, and no expiry.")
	}
	for i := range k.Members {
		m := &k.Members[i]
		if m.NoStatus == "" && k.Leader != nil && k.Leader.CommitIndex > m.AppliedIndex {
			m.Behind = k.Leader.CommitIndex - m.AppliedIndex
		}
		m.IfItFails = k.ifItFails(m, answering)
		k.alarmsOf(m)
	}
}

const removedText = "This node was permanently removed from the cluster: stop its process. Its pages show its last " +
	"known state. Use the console of a member."

// countVoters counts voters, finds the leader and a freeze, and returns how many voters answered.
func (k *cluster) countVoters() (answering int) {
	for i := range k.Members {
		m := &k.Members[i]
		if m.Voter {
			k.Voters++
		}
		if m.Voter && m.NoStatus == "" {
			answering++
		}
		if m.Role == "leader" && (k.Leader == nil || m.Term > k.Leader.Term) {
			k.Leader = &m.Status
		}
		if m.Freezing != nil {
			k.Freezing = m.Freezing
		}
	}
	k.Quorum = k.Voters/2 + 1
	return answering
}

// hasLeader reports whether a member is the leader, or knows the leader: the leader itself may be slow, or not permit
// this caller.
func (k *cluster) hasLeader() bool {
	return k.Leader != nil || slices.ContainsFunc(k.Members, func(m member) bool { return m.Status.Leader != 0 })
}

func (k *cluster) alarm(format string, args ...any) {
	k.Alarms = append(k.Alarms, fmt.Sprintf(format, args...))
}

// alarmsOf lists the problems of a member.
func (k *cluster) alarmsOf(m *member) {
	of := m.Member.Node
	switch {
	case m.NoStatus != "":
		k.alarm("No status from node %d: %s.", of, m.NoStatus)
	case m.Drain != nil:
		k.alarm("Node %d is draining: %s.", of, drainText(m.Drain))
	case !m.Ready:
		k.alarm("Node %d is not ready: %s.", of, m.NotReadyBecause)
	}
	if m.Warning != "" {
		k.alarm("Warning of node %d: %s.", of, m.Warning)
	}
}

// ifItFails describes the quorum without a member.
func (k *cluster) ifItFails(m *member, answering int) string {
	if !m.Voter {
		return "no effect on the quorum: it has no vote"
	}
	if k.hasInaccessibleVoter() {
		return "unknown: no status from some voters"
	}
	left := answering
	if m.NoStatus == "" {
		left--
	}
	switch spare := left - k.Quorum; {
	case spare < 0:
		return fmt.Sprintf("%d of %d voters remain, less than the quorum of %d: no writes, and no expiry", left, k.Voters,
			k.Quorum)
	case spare == 0:
		return fmt.Sprintf("%d of %d voters remain, exactly the quorum: one more failure stops the cluster", left, k.Voters)
	default:
		return fmt.Sprintf("%d of %d voters remain: the cluster tolerates %s more", left, k.Voters,
			plural(spare, "failure", "failures"))
	}
}

// drainText describes the progress of a drain.
func drainText(d *client.Drain) string {
	switch {
	case d.Done:
		return "all clients have moved"
	case d.Leads:
		return fmt.Sprintf("it is still the leader, with %d sessions", d.Sessions)
	default:
		return fmt.Sprintf("%d sessions on %d connections still to move", d.Sessions, d.Connections)
	}
}

func (c *Console) overview(q *request) (view, error) {
	k, err := c.clusterOf(q)
	return view{Page: "overview", Title: "Overview", ReloadOn: "status sample", Data: k}, err
}

func (c *Console) members(q *request) (view, error) {
	k, err := c.clusterOf(q)
	return view{Page: "members", Title: "Members", ReloadOn: "status sample", Data: k}, err
}

func (c *Console) settingsPage(*request) (view, error) {
	return view{Page: "settings", Title: "Settings", Data: c.settings}, nil
}

func (c *Console) freeze(q *request) (action, error) {
	d, err := durationOf(q, "for")
	if err != nil {
		return action{}, err
	}
	why := q.PostForm.Get("why")
	return action{
		Title: "Freeze expiry", Back: "/ui/members",
		Question: fmt.Sprintf("Freeze expiry for %v?", d),
		Consequences: []string{
			"No session expires, even if its client is dead: locks of dead clients stay held.",
			"The freeze ends by itself. Each session then has its full timeout.",
		},
		run: func() (string, error) {
			return fmt.Sprintf("Expiry is frozen for %v.", d), q.caller.Freeze(q.ctx, d, why)
		},
	}, nil
}

func (c *Console) thaw(q *request) (action, error) {
	return action{
		Title: "Thaw expiry", Back: "/ui/members", Question: "Thaw expiry?",
		Consequences: []string{"Sessions expire again. Each session has its full timeout from now."},
		run:          func() (string, error) { return "Expiry is no longer frozen.", q.caller.Thaw(q.ctx) },
	}, nil
}

// durationOf reads a duration of a form or a query.
func durationOf(q *request, name string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(q.FormValue(name)))
	if err != nil || d < 0 {
		return 0, &inputError{name, "must be a duration with a unit, such as 30s, 10m or 2h"}
	}
	return d, nil
}
