package cluster

import (
	"context"
	"sync"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/session"
	"holdfast/session/words"
)

// statusView is the status of a node in JSON. Error is set when the node did not answer.
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

func newStatus(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the status of the nodes at --endpoints", Args: cli.NoArgs,
		Long: `Show the status of every node at --endpoints.

MODE is read-write while the node knows a leader with a quorum. Otherwise MODE is read-only or no
leader, depending on the node's setting read_only. READY is DRAINING while a node is being drained,
and DRAINED when the drain is complete. SESSIONS and STATE show use and limit: max_sessions bounds
SESSIONS, and max_state_bytes bounds STATE, the memory of the replicated state. ATTACHED and WATCHES
count the node's own clients. TREE shows the number of entries and the memory that they take, which
max_tree_bytes bounds.

Lines below the tables show the versions of the nodes, why a node is not ready or does not answer,
warnings, and a freeze. The exit code is 1 when a node does not answer, and 3 when none answers.
-o json shows more.`,
		RunE: cli.Run(env, &cli.NoFlags{}, runStatus),
	}
}

func runStatus(ctx context.Context, env *cli.Env, _ *cli.NoFlags, _ []string) error {
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error { return printStatus(ctx, env, cl) })
}

func printStatus(ctx context.Context, env *cli.Env, cl *client.Client) error {
	endpoints := env.Cluster.Endpoints
	views := make([]statusView, len(endpoints))
	causes, errs := make([]string, len(endpoints)), make([]error, len(endpoints))
	var wg sync.WaitGroup
	for i, endpoint := range endpoints {
		wg.Go(func() {
			st, err := env.Cluster.StatusOf(ctx, cl, endpoint)
			if errs[i] = err; err != nil {
				views[i] = statusView{Endpoint: endpoint, Error: cli.OneLine(err)}
				causes[i] = env.Cluster.Cause(endpoint, err)
				return
			}
			views[i] = viewStatus(endpoint, st)
		})
	}
	wg.Wait()
	if err := env.Out.Print(views, func() string { return statusText(views, causes, env.Out.Columns) }); err != nil {
		return err
	}
	return cli.JoinNodes(errs)
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

// treeText shows the size of the tree.
func treeText(v *statusView) string {
	return cli.Number(v.TreeEntries) + "/" + words.Bytes(v.TreeBytes)
}

// modeText is empty for a mode that this program does not know.
func modeText(m session.Mode) string {
	if m == 0 {
		return ""
	}
	return m.String()
}
