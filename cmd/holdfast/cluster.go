package main

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/session"
)

// statusView is a node's status in JSON; Error says why a node gave none.
type statusView struct {
	Endpoint         string       `json:"endpoint"`
	Node             session.Node `json:"node,omitempty"`
	ClusterID        string       `json:"cluster_id,omitempty"`
	Role             string       `json:"role,omitempty"`
	Mode             string       `json:"mode,omitempty"`
	Term             uint64       `json:"term,omitempty"`
	Leader           session.Node `json:"leader,omitempty"`
	LeaderAddress    string       `json:"leader_address,omitempty"`
	CommitIndex      uint64       `json:"commit_index,omitempty"`
	AppliedIndex     uint64       `json:"applied_index,omitempty"`
	SessionsGlobal   uint64       `json:"sessions_global"`
	SessionsLocal    uint64       `json:"sessions_local"`
	SessionsAttached uint64       `json:"sessions_attached"`
	MaxSessions      uint64       `json:"max_sessions,omitempty"`
	StateBytes       uint64       `json:"state_bytes"`
	MaxStateBytes    uint64       `json:"max_state_bytes,omitempty"`
	Ready            bool         `json:"ready"`
	NotReadyBecause  string       `json:"not_ready_because,omitempty"`
	Warning          string       `json:"warning,omitempty"`
	StateDigest      string       `json:"state_digest,omitempty"`
	Version          string       `json:"version,omitempty"`
	Error            string       `json:"error,omitempty"`
}

func (c *cli) clusterStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Ask every endpoint for its status", Args: noArgs,
		Long: `Ask every node named by --endpoints for its status. MODE is read-write while the node hears of a leader with a quorum; read-only
or no leader while it does not, as its setting read_only is. SESSIONS and STATE, the memory that the replicated state takes, show what
there is of what max_sessions and max_state_bytes allow. A node that does not answer has a line that says why; then the
exit code is 1, or 3 when no node answers.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.withClient(cmd.Context(), c.status) },
	}
}

func (c *cli) status(ctx context.Context, cl *client.Client) error {
	views := make([]statusView, len(c.endpoints))
	errs := make([]error, len(c.endpoints))
	var wg sync.WaitGroup
	for i, endpoint := range c.endpoints {
		wg.Go(func() {
			st, err := statusOf(ctx, cl, endpoint)
			views[i], errs[i] = viewStatus(endpoint, st, err), err
		})
	}
	wg.Wait()
	rows := make([][]string, 0, len(views))
	for i := range views {
		rows = append(rows, statusRow(&views[i]))
	}
	headers := []string{
		"ENDPOINT", "NODE", "ROLE", "MODE", "TERM", "LEADER", "COMMIT", "APPLIED", "SESSIONS", "STATE",
		"ATTACHED", "READY", "VERSION",
	}
	if err := c.print(views, func() string { return columns(headers, rows) }); err != nil {
		return err
	}
	return silentNodes(errs)
}

// silentNodes returns what it means that some nodes did not answer: an unreachable cluster only when none did. A node
// that refused has answered: its word goes before the silence of others.
func silentNodes(errs []error) error {
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	words := slices.DeleteFunc(slices.Clone(failed), func(err error) bool {
		return errors.Is(err, client.ErrUnreachable)
	})
	switch {
	case len(failed) == 0:
		return nil
	case len(failed) < len(errs):
		return errors.New("not every node answered")
	case len(words) > 0:
		return errors.Join(words...)
	default:
		return errors.Join(failed...)
	}
}

// statusOf asks one node for its status. What answers at an address and is no node's client port is no node that
// answers.
func statusOf(ctx context.Context, cl *client.Client, endpoint string) (client.Status, error) {
	st, err := cl.Status(ctx, endpoint)
	if foreign(err) {
		err = fmt.Errorf("%w: %s is not a client port; clients use 7400 unless set otherwise", client.ErrUnreachable,
			endpoint)
	}
	return st, err
}

func viewStatus(endpoint string, st client.Status, err error) statusView {
	if err != nil {
		return statusView{Endpoint: endpoint, Error: oneLine(err)}
	}
	return statusView{
		Endpoint: endpoint, Node: st.Node, ClusterID: st.ClusterID, Role: st.Role, Mode: modeText(st.Mode),
		Term: st.Term, Leader: st.Leader,
		LeaderAddress: st.LeaderAddress, CommitIndex: st.CommitIndex, AppliedIndex: st.AppliedIndex,
		SessionsGlobal: st.Global, SessionsLocal: st.Local, SessionsAttached: st.Attached,
		MaxSessions: st.MaxSessions, StateBytes: st.StateBytes, MaxStateBytes: st.MaxStateBytes,
		Ready: st.Ready, NotReadyBecause: st.NotReadyBecause, Warning: st.Warning, StateDigest: st.StateDigest,
		Version: st.Version,
	}
}

// modeText is empty for a mode that a node did not tell.
func modeText(m session.Mode) string {
	if m == 0 {
		return ""
	}
	return m.String()
}

func statusRow(v *statusView) []string {
	if v.Error != "" {
		return []string{v.Endpoint, "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "no: " +
			brief(v.Endpoint, v.Error), "-"}
	}
	ready := yes(v.Ready)
	if v.NotReadyBecause != "" {
		ready += ": " + v.NotReadyBecause
	}
	if v.Warning != "" {
		ready += ", warning: " + v.Warning
	}
	leader := "-"
	if v.Leader != 0 {
		leader = number(v.Leader)
	}
	return []string{
		v.Endpoint, number(v.Node), v.Role, orDash(v.Mode), number(v.Term), leader, number(v.CommitIndex),
		number(v.AppliedIndex),
		share(v.SessionsGlobal, v.MaxSessions, number), share(v.StateBytes, v.MaxStateBytes, bytesText),
		number(v.SessionsAttached),
		ready, orDash(v.Version),
	}
}

// share shows how much there is of how much there may be, which is 0 while nothing bounds it.
func share(n, of uint64, text func(uint64) string) string {
	if of == 0 {
		return text(n)
	}
	return text(n) + "/" + text(of)
}

// bytesText shows a number of bytes in the largest unit that leaves at least 1, cut to one digit after the point.
func bytesText(n uint64) string {
	const units = "KMGT"
	if n < 1<<10 {
		return number(n) + "B"
	}
	at := (bits.Len64(n) - 1) / 10
	at = min(at, len(units))
	tenths := n * 10 >> (10 * at)
	if tenths%10 == 0 {
		return number(tenths/10) + units[at-1:at]
	}
	return fmt.Sprintf("%d.%d%s", tenths/10, tenths%10, units[at-1:at])
}

type memberView struct {
	Node          session.Node `json:"node"`
	Voter         bool         `json:"voter"`
	Leader        bool         `json:"leader"`
	ClientAddress string       `json:"client_address"`
	RaftAddress   string       `json:"raft_address"`
	PeerAddress   string       `json:"peer_address"`
}

func (c *cli) clusterMembers() *cobra.Command {
	return &cobra.Command{
		Use: "members", Short: "Show the members of the cluster", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withClient(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				members, err := cl.Members(ctx)
				if err != nil {
					return err
				}
				views := make([]memberView, 0, len(members))
				rows := make([][]string, 0, len(members))
				for _, m := range members {
					views = append(views, memberView(m))
					rows = append(
						rows, []string{
							number(m.Node), yes(m.Voter), yes(m.Leader), m.ClientAddress, m.RaftAddress,
							m.PeerAddress,
						},
					)
				}
				return c.print(views, func() string {
					return columns([]string{"NODE", "VOTER", "LEADER", "CLIENT", "RAFT", "PEER"}, rows)
				})
			})
		},
	}
}
