package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// AddTimeoutFlag adds the flag --timeout of a session; what describes it.
func AddTimeoutFlag(cmd *cobra.Command, to *time.Duration, what string) {
	cmd.Flags().Var(arg.Positive(to, 10*time.Second, session.MaxTimeout), "timeout",
		what+", at most 24h; the cluster clamps it to its limits")
}

// SessionTimeout describes the --timeout of a session that a command opens.
const SessionTimeout = "how long the session lives without a touch"

// SessionFlags are the flags for a new session.
type SessionFlags struct {
	timeout time.Duration
	labels  []string
	local   bool
}

// Register adds the flags.
func (f *SessionFlags) Register(cmd *cobra.Command) {
	AddTimeoutFlag(cmd, &f.timeout, SessionTimeout)
	cmd.Flags().StringArrayVar(&f.labels, "label", nil, NewLabelHelp)
	cmd.Flags().BoolVar(&f.local, "local", false,
		"open a local session: one node alone knows it, and it ends with that node; the cluster's setting "+
			"local_sessions must be on")
}

// Names are the names of the flags.
func (*SessionFlags) Names() []string { return []string{"timeout", "label", "local"} }

// Options returns the values of the flags.
func (f *SessionFlags) Options() (client.SessionOptions, error) {
	for _, w := range f.labels {
		if !strings.Contains(w, "=") {
			return client.SessionOptions{}, Usage("--label %q: want KEY=VALUE, or KEY= for an empty value", w)
		}
	}
	labels, err := ParseLabels(f.labels)
	if err != nil {
		return client.SessionOptions{}, err
	}
	return client.SessionOptions{Timeout: f.timeout, Labels: labels, Local: f.local}, nil
}

// Open opens the session.
func (f *SessionFlags) Open(ctx context.Context, cl *client.Client) (*client.Session, error) {
	options, err := f.Options()
	if err != nil {
		return nil, err
	}
	return cl.Open(ctx, options)
}

// Help of --label: NewLabelHelp of commands that set labels, SelectLabelHelp of commands that select by labels.
const (
	NewLabelHelp    = "label KEY=VALUE, or KEY= for an empty value; may be repeated"
	SelectLabelHelp = "label KEY=VALUE, or KEY for any value; may be repeated"
)

// ParseLabels reads words of the form KEY=VALUE. KEY alone is KEY with an empty value.
func ParseLabels(given []string) (map[string]string, error) {
	labels := make(map[string]string, len(given))
	for _, w := range given {
		key, value, _ := strings.Cut(w, "=")
		if _, twice := labels[key]; twice {
			return nil, Usage("--label %q: the key is given twice", w)
		}
		labels[key] = value
	}
	if _, err := session.NewLabels(labels); err != nil {
		return nil, Usage("--label: %w", err)
	}
	return labels, nil
}

// SelectLabels reads words of the form KEY=VALUE, or KEY for any value, by which sessions are selected. It refuses an
// empty value: nodes treat an empty value as any value, and KEY=$UNSET of a script must not select all sessions with
// the key.
func SelectLabels(given []string) (map[string]string, error) {
	for _, w := range given {
		if key, value, has := strings.Cut(w, "="); has && value == "" {
			return nil, Usage("--label %q: the value is empty: write --label %q for any value; nodes cannot select the "+
				"empty value alone, so name sessions with it by their ids", w, key)
		}
	}
	return ParseLabels(given)
}

// AddOwnerFlag adds the flag --owner of commands that select sessions.
func AddOwnerFlag(cmd *cobra.Command, to *uint8) {
	cmd.Flags().Var(arg.Whole(to, 0, 0, uint8(session.MaxNode)), "owner",
		fmt.Sprintf("number of the node that serves the session, 1 to %d; 0 for any", session.MaxNode))
}

// AddScopeFlag adds the flag --scope of commands that select sessions.
func AddScopeFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "scope", "any", "scope of the sessions: any, global or local")
	CompleteWords(cmd, "scope", slices.Sorted(maps.Keys(scopes()))...)
}

// ParseScope reads the value of --scope.
func ParseScope(word string) (session.Scope, error) {
	scope, known := scopes()[word]
	if !known {
		return 0, Usage("--scope %q: want any, global or local", word)
	}
	return scope, nil
}

func scopes() map[string]session.Scope {
	return map[string]session.Scope{"any": 0, "global": session.ScopeGlobal, "local": session.ScopeLocal}
}

// ReadFlags say how fresh the answer to a read of the tree must be.
type ReadFlags struct {
	cluster      *Cluster
	linearizable bool
}

// Register adds the flags.
func (f *ReadFlags) Register(cmd *cobra.Command, c *Cluster) {
	f.cluster = c
	cmd.Flags().BoolVar(&f.linearizable, "linearizable", false,
		"linearizable read: asks the leader, and shows all writes that were committed when the command began")
	c.AddReadOnlyFlag(cmd)
	cmd.MarkFlagsMutuallyExclusive("linearizable", "read-only")
}

// Options returns the values of the flags.
func (f *ReadFlags) Options() []client.ReadOption {
	switch {
	case f.linearizable:
		return []client.ReadOption{client.Linearizable()}
	case f.cluster.ReadOnly:
		return []client.ReadOption{client.AllowStale()}
	default:
		return nil
	}
}

// CheckFreeze checks the --for of a freeze or an extension.
func CheckFreeze(span time.Duration) error {
	if span < time.Millisecond || span > session.MaxFreeze || span%time.Millisecond != 0 {
		return Usage("--for %s: want 1ms to %s, in whole milliseconds", span, session.MaxFreeze)
	}
	return nil
}

// MarkRequired makes a command refuse to run without a flag. It panics if cmd has no such flag.
func MarkRequired(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagRequired(flag); err != nil {
		panic(err)
	}
}
