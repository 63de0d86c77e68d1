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

// member is a member of the cluster with its own word about itself.
type member struct {
	client.Member
	client.Status
	// Silent says why the member said nothing; empty when it did.
	Silent string
	// Unseen says that it may well answer others: this caller may not ask it, or its address is not known here.
	Unseen bool
	// Own says that it is the node of this console.
	Own bool
	// Behind is how many entries of the log it has yet to apply, as the leader counts them.
	Behind uint64
	// Without says what the cluster could do without this member.
	Without string
}

// cluster is the members, and what a person should know first.
type cluster struct {
	Members []member
	// Former says that the node of this console is no member any more, and shows how the cluster was; empty while it is.
	Former string
	Alarms []string
	Turns  []turn
	// Leader is the status of the leader, nil while none has answered. Others may know that there is one.
	Leader *client.Status
	// Freezing is nil while the cluster is not frozen.
	Freezing *client.Freezing
	// Voters and Quorum are the numbers of those who vote, and of those who must agree.
	Voters, Quorum int
}

// askTimeout bounds the wait for a member's status: a member that is down must not hold up the page.
const askTimeout = 1500 * time.Millisecond

// clusterOf asks all members.
func (c *Console) clusterOf(q *request) (cluster, error) {
	members, err := q.caller.Members(q.ctx)
	if err != nil {
		return cluster{}, err
	}
	k := cluster{Members: make([]member, len(members)), Turns: c.record.turned()}
	if c.removed() {
		k.Former = removedText
	}
	var asking sync.WaitGroup
	for i, m := range members {
		asking.Go(func() {
			one := &k.Members[i]
			one.Member, one.Own = m, m.Node == c.node
			if m.ClientAddress == "" {
				one.Silent, one.Unseen = "its address is not known here: give it in peers", true
				return
			}
			ctx, cancel := context.WithTimeout(q.ctx, askTimeout)
			defer cancel()
			status, err := q.caller.Status(ctx, m.ClientAddress)
			if err != nil {
				one.Silent = brief(err)
				one.Unseen = errors.Is(err, session.ErrUnauthenticated) || errors.Is(err, session.ErrForbidden)
				return
			}
			one.Status = status
		})
	}
	asking.Wait()
	k.judge()
	return k, nil
}

// brief says in a few words why a member did not answer.
func brief(err error) string {
	switch {
	case errors.Is(err, session.ErrUnauthenticated):
		return "it does not know who asks: certificates of browsers are not passed on, so open its own console"
	case errors.Is(err, session.ErrForbidden):
		return "it does not allow this caller to ask"
	case errors.Is(err, client.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return "it does not answer"
	default:
		return err.Error()
	}
}

// judge finds out what a person should know first.
func (k *cluster) judge() {
	slices.SortFunc(k.Members, func(a, b member) int { return int(a.Member.Node) - int(b.Member.Node) })
	answering := k.count()
	if k.Former != "" {
		k.Alarms = append(k.Alarms, k.Former)
	}
	if k.Freezing != nil {
		k.alarm("The cluster is frozen by %s for %v more: nothing expires. %s", k.Freezing.By,
			k.Freezing.Left.Round(time.Second), k.Freezing.Why)
	}
	if !k.isLed() {
		k.alarm("No leader is known: nothing is written, and nothing expires.")
	}
	for i := range k.Members {
		m := &k.Members[i]
		if m.Silent == "" && k.Leader != nil && k.Leader.CommitIndex > m.AppliedIndex {
			m.Behind = k.Leader.CommitIndex - m.AppliedIndex
		}
		m.Without = k.without(m, answering)
		k.alarmsOf(m)
	}
}

const removedText = "This node was removed from its cluster for good: end its process. Its pages show what it " +
	"knew last. Look at the console of a member."

// count counts voters, finds the leader and a freeze, and returns how many voters answer.
func (k *cluster) count() (answering int) {
	for i := range k.Members {
		m := &k.Members[i]
		if m.Voter {
			k.Voters++
		}
		if m.Voter && m.Silent == "" {
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

// isLed reports whether a member leads, or knows who does: the leader itself may be slow, or not allow this caller to
// ask.
func (k *cluster) isLed() bool {
	return k.Leader != nil || slices.ContainsFunc(k.Members, func(m member) bool { return m.Status.Leader != 0 })
}

func (k *cluster) alarm(format string, args ...any) {
	k.Alarms = append(k.Alarms, fmt.Sprintf(format, args...))
}

// alarmsOf says what is wrong with a member.
func (k *cluster) alarmsOf(m *member) {
	of := m.Member.Node
	switch {
	case m.Silent != "":
		k.alarm("Node %d is not shown: %s.", of, m.Silent)
	case m.Drain != nil:
		k.alarm("Node %d is being drained: %s.", of, drainText(m.Drain))
	case !m.Ready:
		k.alarm("Node %d does not serve: %s.", of, m.NotReadyBecause)
	}
	if m.Warning != "" {
		k.alarm("Node %d warns: %s.", of, m.Warning)
	}
}

// without says what the cluster could do without a member.
func (k *cluster) without(m *member, answering int) string {
	if !m.Voter {
		return "It does not vote: without it the cluster decides as before."
	}
	if k.unseen() {
		return "What would be left without it cannot be said here: not all voters are shown."
	}
	left := answering
	if m.Silent == "" {
		left--
	}
	switch spare := left - k.Quorum; {
	case spare < 0:
		return fmt.Sprintf("Without it %d of %d voters would be left, and %d must agree: nothing would be written, and "+
			"nothing would expire.", left, k.Voters, k.Quorum)
	case spare == 0:
		return fmt.Sprintf("Without it %d of %d voters would be left, just enough: the next loss would stop the cluster.",
			left, k.Voters)
	default:
		return fmt.Sprintf("Without it %d of %d voters would be left: %d more could be lost.", left, k.Voters, spare)
	}
}

// drainText says how far a drain has come.
func drainText(d *client.Drain) string {
	switch {
	case d.Done:
		return "nobody has to be waited for any more"
	case d.Leads:
		return fmt.Sprintf("it leads still, and has %d sessions", d.Sessions)
	default:
		return fmt.Sprintf("%d sessions on %d connections have yet to go", d.Sessions, d.Connections)
	}
}

func (c *Console) overview(q *request) (view, error) {
	k, err := c.clusterOf(q)
	return view{Page: "overview", Title: "Overview", Follows: "status sample", Data: k}, err
}

func (c *Console) members(q *request) (view, error) {
	k, err := c.clusterOf(q)
	return view{Page: "members", Title: "Members", Follows: "status sample", Data: k}, err
}

func (c *Console) settingsPage(*request) (view, error) {
	return view{Page: "settings", Title: "Settings", Data: c.settings}, nil
}

func (c *Console) freeze(q *request) (act, error) {
	d, err := durationOf(q, "for")
	if err != nil {
		return act{}, err
	}
	why := q.PostForm.Get("why")
	return act{
		Title: "Freeze the cluster", Back: "/ui/members",
		Question: fmt.Sprintf("Let nothing expire for %v?", d),
		Consequences: []string{
			"No session expires, whether its client lives or not: locks of clients that have died stay taken.",
			"The freeze ends by itself. Each session then has its full timeout.",
		},
		do: func() (string, error) {
			return fmt.Sprintf("Nothing expires for %v.", d), q.caller.Freeze(q.ctx, d, why)
		},
	}, nil
}

func (c *Console) thaw(q *request) (act, error) {
	return act{
		Title: "Thaw the cluster", Back: "/ui/members", Question: "Let sessions expire again?",
		Consequences: []string{"Each session has its full timeout from now on."},
		do:           func() (string, error) { return "Sessions expire again.", q.caller.Thaw(q.ctx) },
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
