package console

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"holdfast/client"
	"holdfast/session"
)

// memberActs are what can be done with members.
type memberActs struct{ *Console }

// memberOf returns the member that a path names, with the rest of the cluster.
func (c memberActs) memberOf(q *request) (member, cluster, error) {
	k, err := c.clusterOf(q)
	if err != nil {
		return member{}, cluster{}, err
	}
	for _, m := range k.Members {
		if fmt.Sprint(m.Member.Node) == q.PathValue("node") {
			return m, k, nil
		}
	}
	return member{}, cluster{}, &inputError{"node", "must be the number of a member"}
}

func (c memberActs) drainMember(q *request) (act, error) {
	m, _, err := c.memberOf(q)
	if err != nil {
		return act{}, err
	}
	of := m.Member.Node
	return act{
		Title: fmt.Sprintf("Drain node %d", of), Back: "/ui/members",
		Question: fmt.Sprintf("Drain node %d?", of),
		Consequences: []string{
			"It gives leadership away, and sends its clients to the other nodes. They lose no promise.",
			"It takes no new sessions until it is undrained or restarted. Its local sessions end with its process.",
			"The node goes on voting. " + m.Without,
		},
		do: func() (string, error) {
			_, err := q.caller.DrainNode(q.ctx, m.ClientAddress, of, false)
			return fmt.Sprintf("Node %d is being drained. "+follow, of), err
		},
	}, nil
}

func (c memberActs) undrainMember(q *request) (act, error) {
	m, _, err := c.memberOf(q)
	if err != nil {
		return act{}, err
	}
	of := m.Member.Node
	return act{
		Title: fmt.Sprintf("Undrain node %d", of), Back: "/ui/members",
		Question:     fmt.Sprintf("Let node %d serve again?", of),
		Consequences: []string{"It takes sessions again. Clients come back to it by and by."},
		do: func() (string, error) {
			drained, err := q.caller.UndrainNode(q.ctx, m.ClientAddress, of)
			if !drained {
				return fmt.Sprintf("Node %d was not being drained.", of), err
			}
			return fmt.Sprintf("Node %d serves again.", of), err
		},
	}, nil
}

// Vote says in words whether a member votes, and what is to become of that.
func (m *member) Vote() string {
	switch {
	case m.Leaving:
		return "it is being removed"
	case m.Voter && m.Observer:
		return "yes, and it is losing its vote"
	case m.Voter:
		return "yes"
	case m.Observer:
		return "no, it is an observer"
	default:
		return "not yet: it gets its vote once it has caught up"
	}
}

// ballot is what the voters would come to without one, and with another, by the rule of the leader (J4): who is
// leaving, or losing its vote, does not count, and who is being drained is missing.
func (k *cluster) ballot(without, with session.Node) session.Ballot {
	var votes []session.Vote
	isNew := with != 0
	for i := range k.Members {
		m := &k.Members[i]
		isNew = isNew && m.Member.Node != with
		if m.Member.Node == without || m.Member.Node != with && (!m.Voter || m.Observer || m.Leaving) {
			continue
		}
		v := session.Vote{Node: m.Member.Node}
		switch {
		case m.Silent != "" && !m.Unseen:
			v.Missing = "does not answer"
		case m.Drain != nil:
			v.Missing = "is being drained"
		}
		votes = append(votes, v)
	}
	if isNew {
		votes = append(votes, session.Vote{Node: with})
	}
	return session.NewBallot(votes)
}

// unseen reports whether there is a voter of which this page knows nothing.
func (k *cluster) unseen() bool {
	return slices.ContainsFunc(k.Members, func(m member) bool { return m.Voter && m.Unseen })
}

// then says what the cluster could do with the voters of a ballot.
func (k *cluster) then(b session.Ballot) string {
	said := fmt.Sprintf("Then %s, and %d must agree. ", count(b.Voters, "member votes", "members vote"), b.Quorum)
	if absent := b.Absent(); absent != "" {
		said += "But " + absent + ". "
	}
	switch spare := b.Remain - b.Quorum; {
	case k.unseen():
		return said + "Not all of them are shown here: the leader, which hears them, decides whether enough remain."
	case spare < 0:
		return said + fmt.Sprintf("%d would remain, which is no quorum: the leader refuses that.", b.Remain)
	case spare == 0:
		return said + fmt.Sprintf("%d would remain, just enough: the next loss would stop the cluster.", b.Remain)
	default:
		return said + fmt.Sprintf("%d would remain: %d could be lost.", b.Remain, spare)
	}
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// follow says where the page shows how far a change has come.
const follow = "The page of the members shows how far it has come."

// change is an act on one member, which the leader carries out.
type change struct {
	title, question, done string
	consequences          func(m *member, k *cluster) []string
	do                    func(cl *client.Client, ctx context.Context, node session.Node) error
}

// changing makes the act of a change.
func (c memberActs) changing(of change) func(q *request) (act, error) {
	return func(q *request) (act, error) {
		m, k, err := c.memberOf(q)
		if err != nil {
			return act{}, err
		}
		node := m.Member.Node
		return act{
			Title: fmt.Sprintf(of.title, node), Back: "/ui/members", Question: fmt.Sprintf(of.question, node),
			Consequences: of.consequences(&m, &k),
			do: func() (string, error) {
				return fmt.Sprintf(of.done, node), of.do(q.caller.Client, q.ctx, node)
			},
		}, nil
	}
}

// changes are what can be done with a member, by the last part of its path.
func changes() map[string]change {
	return map[string]change{
		"promote": {
			title: "Give node %d a vote", question: "Give node %d a vote?", done: "Node %d gets its vote. " + follow,
			consequences: func(m *member, k *cluster) []string {
				return []string{
					"It gets its vote once it has caught up with the log.",
					k.then(k.ballot(0, m.Member.Node)),
				}
			},
			do: (*client.Client).PromoteMember,
		},
		"demote": {
			title: "Take the vote of node %d", question: "Take the vote of node %d?",
			done: "Node %d loses its vote. " + follow,
			consequences: func(m *member, k *cluster) []string {
				return append(handsOver(m), "It goes on to serve clients, as an observer.", withoutVoter(m, k))
			},
			do: (*client.Client).DemoteMember,
		},
		"remove": {
			title: "Remove node %d for good", question: "Remove node %d for good?",
			done: "Node %d is being removed. " + follow + " End its process once it is no member.",
			consequences: func(m *member, k *cluster) []string {
				return append(handsOver(m),
					"There is no way back: no node can have its number again.",
					"If it lives, it is drained first: its clients go to the other nodes, and lose no promise.",
					withoutVoter(m, k))
			},
			do: (*client.Client).RemoveMember,
		},
		"transfer": {
			title: "Have node %d lead", question: "Have node %d lead?", done: "Leadership was handed over to node %d.",
			consequences: func(m *member, _ *cluster) []string {
				said := []string{"Writes wait for the moment of the change. No session expires by it."}
				if m.Silent != "" && !m.Unseen {
					said = append(said, "It does not answer here: if the leader does not hear it either, it refuses.")
				}
				return said
			},
			do: (*client.Client).TransferLeadership,
		},
	}
}

// handsOver says that a leader goes.
func handsOver(m *member) []string {
	if m.Role != "leader" {
		return nil
	}
	return []string{"It leads, and hands leadership over first."}
}

// withoutVoter says what the cluster could do without a member's vote.
func withoutVoter(m *member, k *cluster) string {
	if !m.Voter {
		return "It does not vote: the cluster decides as before."
	}
	return k.then(k.ballot(m.Member.Node, 0))
}

// addMember takes a node in.
func (c memberActs) addMember(q *request) (act, error) {
	number, err := strconv.ParseUint(q.PostForm.Get("node"), 10, 8)
	if err != nil || number < 1 || number > uint64(session.MaxNode) {
		return act{}, &inputError{"node", fmt.Sprintf("must be a number from 1 to %d", session.MaxNode)}
	}
	host := strings.TrimSpace(q.PostForm.Get("host"))
	at := session.MemberPlace{Node: session.Node(number)}
	for _, one := range []struct {
		name, port string
		to         *string
	}{{"client", "7400", &at.Client}, {"raft", "7401", &at.Raft}, {"peer", "7402", &at.Peer}} {
		*one.to = cmp.Or(strings.TrimSpace(q.PostForm.Get(one.name)), net.JoinHostPort(host, one.port))
		if named, port, malformed := net.SplitHostPort(*one.to); malformed != nil || named == "" || port == "" {
			return act{}, &inputError{one.name, "must be HOST:PORT, or empty where the host has the usual port"}
		}
	}
	return act{
		Title: fmt.Sprintf("Add node %d", at.Node), Back: "/ui/members",
		Question: fmt.Sprintf("Take in node %d at %s?", at.Node, at.Client),
		Consequences: []string{
			"It must run there and wait: on an empty data directory, with a number that no node has ever had.",
			"It becomes an observer: it serves clients, has no vote, and counts for no quorum.",
			"Write it into everybody's peers before their next restart.",
		},
		do: func() (string, error) {
			return fmt.Sprintf("Node %d is taken in. %s", at.Node, follow), q.caller.AddMember(q.ctx, at)
		},
	}, nil
}
