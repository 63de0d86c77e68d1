package session

import (
	"context"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
)

func newShow(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a session, or its death certificate", Args: arg.One("ID"),
		Long: `Show a session, or the death certificate of a session that has ended. The exit code is 1 when the
cluster knows neither: no session ever had the id, or the session ended long ago.

` + readOnlyHelp,
		RunE: cli.Run(env, &cli.NoFlags{}, runShow),
	}
	env.Cluster.AddReadOnlyFlag(cmd)
	return cmd
}

// readOnlyHelp is part of the help of commands with --read-only.
const readOnlyHelp = `With --read-only a read-only node, which knows no leader, may answer when no better node does. Its
answer may be stale: a line on the standard error names the node and the log index of its state.
With -o json "read_only" says the same beside the session or certificate. In a list each session has
it, because the pages of a list may come from different nodes.`

func runShow(ctx context.Context, env *cli.Env, _ *cli.NoFlags, args []string) error {
	id, err := cli.ParseID(args[0])
	if err != nil {
		return err
	}
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		f, err := cl.Get(ctx, id)
		if err != nil {
			return err
		}
		reportReadOnly(env, f.State)
		if f.Certificate != nil {
			return printCertificate(env, f.Certificate, f.State)
		}
		return printSession(env, &f)
	})
}

// reportReadOnly tells the user that a read-only node answered.
func reportReadOnly(env *cli.Env, s session.NodeState) {
	if s.Mode == session.ModeReadOnly {
		env.Out.Messagef("holdfast: answered by read-only node %d, at index %d\n", s.Node, s.Index)
	}
}

// foundView is a session or a certificate in JSON.
type foundView struct {
	Session     *view.Session     `json:"session,omitempty"`
	Certificate *view.Certificate `json:"certificate,omitempty"`
	// ReadOnly is absent unless a read-only node answered.
	ReadOnly *readOnlyView `json:"read_only,omitempty"`
}

// readOnlyView names the read-only node that answered and the log index of its state, in JSON.
type readOnlyView struct {
	Node  session.Node `json:"node"`
	Index uint64       `json:"index"`
}

// viewReadOnly returns nil unless a read-only node answered.
func viewReadOnly(s session.NodeState) *readOnlyView {
	if s.Mode != session.ModeReadOnly {
		return nil
	}
	return &readOnlyView{Node: s.Node, Index: s.Index}
}

func printCertificate(env *cli.Env, c *session.Certificate, at session.NodeState) error {
	v := foundView{Certificate: new(view.NewCertificate(*c)), ReadOnly: viewReadOnly(at)}
	return env.Out.Print(v, func() string {
		return cli.Properties([][]string{
			{"id", c.ID.String()},
			{"ended", c.Cause.String()},
			{"at", words.Moment(c.EndedAt)},
			{"last touch", words.Span(c.LastTouchAge) + " before"},
			{"owner", cli.Number(c.Owner)},
			{"term", cli.Number(c.Term)},
			{"index", cli.Number(c.Index)},
			{"credited", words.Span(c.Credited)},
		})
	})
}

func printSession(env *cli.Env, f *client.Found) error {
	s := f.Session
	v := foundView{Session: new(view.NewSession(s, f.Remaining)), ReadOnly: viewReadOnly(f.State)}
	return env.Out.Print(v, func() string {
		return cli.Properties([][]string{
			{"id", s.ID.String()},
			{"timeout", words.Span(s.Timeout)},
			{"remaining", words.Span(f.Remaining)},
			{"owner", cli.Number(s.Owner)},
			{"scope", cli.Scope(s.Local)},
			{"attachment", cli.Number(s.Attachment)},
			{"labels", words.Labels(s.Labels)},
			{"opened", words.Moment(s.OpenedAt)},
			{"opened index", cli.Number(s.OpenedIndex)},
		})
	})
}
