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

// memberActions are the actions on members.
type memberActions struct{ *Console }

// memberOf returns the member that a path names, and the whole cluster.
func (c memberActions) memberOf(q *request) (member, cluster, error) {
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

func (c memberActions) drainMember(q *request) (action, error) {
	m, _, err := c.memberOf(q)
	if err != nil {
		return action{}, err
	}
	of := m.Member.Node
	return action{
		Title: fmt.Sprintf("Drain node %d", of), Back: "/ui/members",
		Question: fmt.Sprintf("Drain node %d?", of),
		Consequences: slices.Concat(transferNotice(&m), []string{
			"The node moves its clients to other nodes. No session expires because of it.",
			"It accepts no new sessions until it is undrained or restarted. Its local sessions end when its process stops.",
		}, voterAfterDrain(&m)),
		run: func() (string, error) {
			_, err := q.caller.DrainNode(q.ctx, m.ClientAddress, of, false)
			return fmt.Sprintf("Node %d is draining. "+progressText, of), err
		},
	}, nil
}

func (c memberActions) undrainMember(q *request) (action, error) {
	m, _, err := c.memberOf(q)
	if err != nil {
		return action{}, err
	}
	of := m.Member.Node
	return action{
		Title: fmt.Sprintf("Undrain node %d", of), Back: "/ui/members",
		Question:     fmt.Sprintf("Undrain node %d?", of),
		Consequences: []string{"The node accepts sessions again. Clients return gradually."},
		run: func() (string, error) {
			drained, err := q.caller.UndrainNode(q.ctx, m.ClientAddress, of)
			if !drained {
				return fmt.Sprintf("Node %d was not draining.", of), err
			}
			return fmt.Sprintf("Node %d is undrained.", of), err
		},
	}, nil
}

// voterAfterDrain describes what draining a voter means for the quorum.
func voterAfterDrain(m *member) []string {
	if !m.Voter {
		return nil
	}
	return []string{"It keeps its vote. If it then fails: " + m.IfItFails + "."}
}

// VoterText says whether a member is a voter, with a pending promotion, demotion or removal.
func (m *member) VoterText() string {
	switch {
	case m.Leaving:
		return "being removed"
	case m.Voter && m.Observer:
		return "yes, being demoted"
	case m.Voter:
		return "yes"
	case m.Observer:
		return "no, observer"
	default:
		return "not yet: promoted once it has caught up"
	}
}

// ballot returns the voters without one member and with another, by the rule of the leader (J4 quorum is kept): voters
// that are being removed or demoted do not count, and draining voters count as missing.
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
		case m.NoStatus != "" && !m.Inaccessible:
			v.Missing = "is unreachable"
		case m.Drain != nil:
			v.Missing = "is draining"
		}
		votes = append(votes, v)
	}
	if isNew {
		votes = append(votes, session.Vote{Node: with})
	}
	return session.NewBallot(votes)
}

// hasInaccessibleVoter reports whether the caller may not read the status of a voter.
func (k *cluster) hasInaccessibleVoter() bool {
	return slices.ContainsFunc(k.Members, func(m member) bool { return m.Voter && m.Inaccessible })
}

// describeQuorum describes the quorum and the fault tolerance of a ballot.
func (k *cluster) describeQuorum(b session.Ballot) string {
	text := fmt.Sprintf("Afterwards: %s, quorum %d. ", plural(b.Voters, "voter", "voters"), b.Quorum)
	if absent := b.Absent(); absent != "" {
		text += "Unavailable: " + absent + ". "
	}
	switch spare := b.Remain - b.Quorum; {
	case k.hasInaccessibleVoter():
		return text + "Some voters show no status here: the leader decides whether enough are available."
	case spare < 0:
		return text + fmt.Sprintf("Available: %d, less than the quorum. The leader will refuse.", b.Remain)
	case spare == 0:
		return text + fmt.Sprintf("Available: %d, exactly the quorum. One more failure stops the cluster.", b.Remain)
	default:
		return text + fmt.Sprintf("Available: %d. The cluster tolerates %s.", b.Remain, plural(spare, "failure", "failures"))
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// progressText says where to follow a membership change.
const progressText = "The members page shows its progress."

// memberAction is an action on one member, which the leader carries out.
type memberAction struct {
	title, question, done string
	consequences          func(m *member, k *cluster) []string
	run                   func(cl *client.Client, ctx context.Context, node session.Node) error
}

// action returns the handler of a member action.
func (c memberActions) action(of memberAction) func(q *request) (action, error) {
	return func(q *request) (action, error) {
		m, k, err := c.memberOf(q)
		if err != nil {
			return action{}, err
		}
		node := m.Member.Node
		return action{
			Title: fmt.Sprintf(of.title, node), Back: "/ui/members", Question: fmt.Sprintf(of.question, node),
			Consequences: of.consequences(&m, &k),
			run: func() (string, error) {
				return fmt.Sprintf(of.done, node), of.run(q.caller.Client, q.ctx, node)
			},
		}, nil
	}
}

// memberActionsByName returns the member actions by the last part of their paths.
func memberActionsByName() map[string]memberAction {
	return map[string]memberAction{
		"promote": {
			title: "Promote node %d", question: "Promote node %d?", done: "Node %d is being promoted. " + progressText,
			consequences: func(m *member, k *cluster) []string {
				return []string{
					"It becomes a voter once it has caught up with the log.",
					k.describeQuorum(k.ballot(0, m.Member.Node)),
				}
			},
			run: (*client.Client).PromoteMember,
		},
		"demote": {
			title: "Demote node %d", question: "Demote node %d?",
			done: "Node %d is being demoted. " + progressText,
			consequences: func(m *member, k *cluster) []string {
				return append(transferNotice(m), "It becomes an observer: it serves clients and has no vote.", quorumWithout(m, k))
			},
			run: (*client.Client).DemoteMember,
		},
		"remove": {
			title: "Remove node %d", question: "Remove node %d permanently?",
			done: "Node %d is being removed. " + progressText + " Stop its process once it is no longer a member.",
			consequences: func(m *member, k *cluster) []string {
				return append(transferNotice(m),
					"This cannot be undone: node numbers are never reused.",
					"If it is alive, it is drained first: its clients move to other nodes. No session expires because of it.",
					quorumWithout(m, k))
			},
			run: (*client.Client).RemoveMember,
		},
		"transfer": {
			title: "Transfer leadership to node %d", question: "Transfer leadership to node %d?",
			done: "Leadership was transferred to node %d.",
			consequences: func(m *member, _ *cluster) []string {
				notes := []string{"Writes pause during the transfer. No session expires because of it."}
				if m.NoStatus != "" && !m.Inaccessible {
					notes = append(notes,
						"This console cannot reach the node. If the leader cannot reach it either, the transfer is refused.")
				}
				return notes
			},
			run: (*client.Client).TransferLeadership,
		},
	}
}

// transferNotice says that a leader transfers leadership first.
func transferNotice(m *member) []string {
	if m.Role != "leader" {
		return nil
	}
	return []string{"It is the leader: it transfers leadership first."}
}

// quorumWithout describes the quorum without a member's vote.
func quorumWithout(m *member, k *cluster) string {
	if !m.Voter {
		return "It has no vote: the quorum stays the same."
	}
	return k.describeQuorum(k.ballot(m.Member.Node, 0))
}

// addMember adds a node.
func (c memberActions) addMember(q *request) (action, error) {
	number, err := strconv.ParseUint(q.PostForm.Get("node"), 10, 8)
	if err != nil || number < 1 || number > uint64(session.MaxNode) {
		return action{}, &inputError{"node", fmt.Sprintf("must be a number from 1 to %d", session.MaxNode)}
	}
	host := strings.TrimSpace(q.PostForm.Get("host"))
	at := session.MemberPlace{Node: session.Node(number)}
	for _, one := range []struct {
		name, port string
		to         *string
	}{{"client", "7400", &at.Client}, {"raft", "7401", &at.Raft}, {"peer", "7402", &at.Peer}} {
		*one.to = cmp.Or(strings.TrimSpace(q.PostForm.Get(one.name)), net.JoinHostPort(host, one.port))
		if named, port, malformed := net.SplitHostPort(*one.to); malformed != nil || named == "" || port == "" {
			return action{}, &inputError{one.name, "must be HOST:PORT, or empty for the default port on the host"}
		}
	}
	return action{
		Title: fmt.Sprintf("Add node %d", at.Node), Back: "/ui/members",
		Question: fmt.Sprintf("Add node %d at %s?", at.Node, at.Client),
		Consequences: []string{
			"The node must be running and waiting, with an empty data directory and a number that no node has had before.",
			"It becomes an observer: it serves clients, has no vote, and does not count for the quorum.",
			"Add it to the peers setting of all nodes before their next restart.",
		},
		run: func() (string, error) {
			return fmt.Sprintf("Node %d was added. %s", at.Node, progressText), q.caller.AddMember(q.ctx, at)
		},
	}, nil
}
