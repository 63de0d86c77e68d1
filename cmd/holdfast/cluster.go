package main

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/client"
	"holdfast/session"
	"holdfast/session/words"
)

// statusView is a node's status in JSON. Error says why a node gave no status.
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
	FeatureLevel     uint32       `json:"feature_level"`
	TreeEntries      uint64       `json:"tree_entries,omitempty"`
	TreeEphemerals   uint64       `json:"tree_ephemerals,omitempty"`
	TreeBytes        uint64       `json:"tree_bytes,omitempty"`
	Watches          uint64       `json:"watches,omitempty"`
	Ready            bool         `json:"ready"`
	NotReadyBecause  string       `json:"not_ready_because,omitempty"`
	Warning          string       `json:"warning,omitempty"`
	StateDigest      string       `json:"state_digest,omitempty"`
	Version          string       `json:"version,omitempty"`
	Error            string       `json:"error,omitempty"`

	Drain    *drainView    `json:"drain,omitempty"`
	Freezing *freezingView `json:"freezing,omitempty"`
}

func (c *cli) clusterStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Ask every endpoint for its status", Args: noArgs,
		Long: `Ask every node named by --endpoints for its status.

MODE is read-write while the node knows a leader with a quorum. Otherwise MODE is read-only or
no leader, depending on the node's setting read_only. READY is DRAINING for a node that is being
drained, and DRAINED when nobody has to be waited for any more. SESSIONS and STATE show use and
limit: max_sessions bounds SESSIONS, and max_state_bytes bounds STATE, the memory that the
replicated state takes. ATTACHED and WATCHES are those of the node's own clients. TREE has the
number of entries and the bytes of their data.

Lines below the tables say which version the nodes have, why a node is not ready or does not
answer, of what it warns, and that the cluster is frozen. The exit code is 1 when a node does not
answer, and 3 when none does. -o json shows more.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.target.call(cmd.Context(), c.status) },
	}
}

func (c *cli) status(ctx context.Context, cl *client.Client) error {
	endpoints := c.target.endpoints
	views := make([]statusView, len(endpoints))
	silent, errs := make([]string, len(endpoints)), make([]error, len(endpoints))
	var wg sync.WaitGroup
	for i, endpoint := range endpoints {
		wg.Go(func() {
			st, err := c.target.statusOf(ctx, cl, endpoint)
			if errs[i] = err; err != nil {
				views[i] = statusView{Endpoint: endpoint, Error: oneLine(err)}
				silent[i] = c.target.brief(endpoint, err)
				return
			}
			views[i] = viewStatus(endpoint, st)
		})
	}
	wg.Wait()
	if err := c.out.print(views, func() string { return statusText(views, silent, c.out.columns) }); err != nil {
		return err
	}
	return silentNodes(errs)
}

// silentNodes returns the outcome of asking every node, of which errs has one each. The cluster is unreachable only if
// all nodes were silent: a node that refused has answered, so its refusal goes before the silence of others.
func silentNodes(errs []error) error {
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	refused := slices.DeleteFunc(slices.Clone(failed), func(err error) bool {
		return errors.Is(err, client.ErrUnreachable)
	})
	switch {
	case len(failed) == 0:
		return nil
	case len(failed) < len(errs):
		return errors.New("not every node answered")
	case len(refused) > 0:
		return errors.Join(refused...)
	default:
		return errors.Join(failed...)
	}
}

// statusOf asks one node for its status. A server that is not the client port of a node is a [notClientPortError].
// Every release of a node answers this call, so a server without it is not a node.
func (t *target) statusOf(ctx context.Context, cl *client.Client, endpoint string) (client.Status, error) {
	st, err := cl.Status(ctx, endpoint)
	speaksHTTP := errors.Is(t.dialer.failure(endpoint), errHTTP1) && !errors.Is(err, session.ErrTLS)
	if status.Code(err) == codes.Unimplemented || err != nil && speaksHTTP {
		err = &notClientPortError{endpoint}
	}
	return st, err
}

func viewStatus(endpoint string, st client.Status) statusView {
	return statusView{
		Endpoint: endpoint, Node: st.Node, ClusterID: st.ClusterID, Role: st.Role, Mode: modeText(st.Mode),
		Term: st.Term, Leader: st.Leader, LeaderAddress: st.LeaderAddress,
		CommitIndex: st.CommitIndex, AppliedIndex: st.AppliedIndex,
		SessionsGlobal: st.Global, SessionsLocal: st.Local, SessionsAttached: st.Attached,
		MaxSessions: st.MaxSessions, StateBytes: st.StateBytes, MaxStateBytes: st.MaxStateBytes,
		Ready: st.Ready, NotReadyBecause: st.NotReadyBecause, Warning: st.Warning, StateDigest: st.StateDigest,
		Version: st.Version, FeatureLevel: st.FeatureLevel, TreeEntries: st.TreeEntries,
		TreeEphemerals: st.TreeEphemerals, TreeBytes: st.TreeBytes, Watches: st.Watches,
		Drain: viewDrain(st.Drain), Freezing: viewFreezing(st.Freezing),
	}
}

// treeText says how large the tree is.
func treeText(v *statusView) string {
	return number(v.TreeEntries) + "/" + words.Bytes(v.TreeBytes)
}

// modeText is empty for a mode that this program does not know.
func modeText(m session.Mode) string {
	if m == 0 {
		return ""
	}
	return m.String()
}

// memberView is a member in JSON.
type memberView struct {
	Node          session.Node `json:"node"`
	Voter         bool         `json:"voter"`
	Leader        bool         `json:"leader"`
	ClientAddress string       `json:"client_address"`
	RaftAddress   string       `json:"raft_address"`
	PeerAddress   string       `json:"peer_address"`
	Observer      bool         `json:"observer,omitempty"`
	Leaving       bool         `json:"leaving,omitempty"`
}

// voterText says whether a member votes, and what is to become of it.
func voterText(m client.Member) string {
	switch {
	case m.Leaving:
		return yes(m.Voter) + ", leaving"
	case m.Observer:
		return yes(m.Voter) + ", observer"
	}
	return yes(m.Voter)
}

func (c *cli) clusterMembers() *cobra.Command {
	return &cobra.Command{
		Use: "members", Short: "Show the members of the cluster", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				members, err := cl.Members(ctx)
				if err != nil {
					return err
				}
				views := make([]memberView, 0, len(members))
				rows := make([][]string, 0, len(members))
				for _, m := range members {
					views = append(views, memberView(m))
					rows = append(rows, []string{
						number(m.Node), voterText(m), yes(m.Leader), m.ClientAddress, m.RaftAddress, m.PeerAddress,
					})
				}
				return c.out.print(views, func() string {
					return columns([]string{"NODE", "VOTER", "LEADER", "CLIENT", "RAFT", "PEER"}, rows)
				})
			})
		},
	}
}
