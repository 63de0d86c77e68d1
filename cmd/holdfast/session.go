package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// openFlags say what session to open.
type openFlags struct {
	timeout time.Duration
	labels  []string
	local   bool
}

// timeoutHelp is said of every --timeout of a session.
const timeoutHelp = "at most 24h; the cluster clamps it to its limits"

// timeoutValue is the value of a --timeout of a session.
func timeoutValue(at *time.Duration) pflag.Value {
	return arg.Positive(at, 10*time.Second, session.MaxTimeout)
}

func (f *openFlags) add(cmd *cobra.Command) {
	cmd.Flags().Var(timeoutValue(&f.timeout), "timeout", "how long the session lives without a sign of life, "+
		timeoutHelp)
	cmd.Flags().StringArrayVar(&f.labels, "label", nil,
		"label KEY=VALUE of the session, KEY= for an empty value; may be repeated")
	cmd.Flags().BoolVar(&f.local, "local", false,
		"a session that one node alone knows, and that ends with it; the cluster's setting local_sessions must be on")
}

func (f *openFlags) options() (client.SessionOptions, error) {
	for _, w := range f.labels {
		if !strings.Contains(w, "=") {
			return client.SessionOptions{}, usage("--label %q: want KEY=VALUE, or KEY= for an empty value", w)
		}
	}
	labels, err := parseLabels(f.labels)
	if err != nil {
		return client.SessionOptions{}, err
	}
	return client.SessionOptions{Timeout: f.timeout, Labels: labels, Local: f.local}, nil
}

// parseLabels reads KEY=VALUE, and KEY as one with an empty value.
func parseLabels(words []string) (map[string]string, error) {
	labels := make(map[string]string, len(words))
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		if _, twice := labels[key]; twice {
			return nil, usage("--label %q: the key is given twice", w)
		}
		labels[key] = value
	}
	if _, err := session.NewLabels(labels); err != nil {
		return nil, usage("--label: %w", err)
	}
	return labels, nil
}

// heldView is a session and its token in JSON.
type heldView struct {
	ID        idText       `json:"id"`
	Token     string       `json:"token"`
	TimeoutMS int64        `json:"timeout_ms"`
	Owner     session.Node `json:"owner"`
	Local     bool         `json:"local,omitempty"`
	SafeUntil *time.Time   `json:"safe_until,omitempty"`
}

func viewHeld(s *client.Session) heldView {
	return heldView{
		ID: idText(s.ID()), Token: formatToken(s.Token()), TimeoutMS: s.Timeout().Milliseconds(), Owner: s.Owner(),
		Local: s.Local(), SafeUntil: moment(s.SafeUntil()),
	}
}

// printHeld prints a session with its token.
func (c *cli) printHeld(v heldView) error {
	return c.print(v, func() string {
		until := time.Time{}
		if v.SafeUntil != nil {
			until = *v.SafeUntil
		}
		return properties([][]string{
			{"id", session.ID(v.ID).String()},
			{"token", v.Token},
			{"timeout", (time.Duration(v.TimeoutMS) * time.Millisecond).String()},
			{"owner", number(v.Owner)},
			{"scope", scopeText(v.Local)},
			{"safe until", timeText(until)},
		})
	})
}

// moment returns nil for none, and leaves the monotonic reading out.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.Round(0))
}

func (c *cli) sessionOpen() *cobra.Command {
	var flags openFlags
	cmd := &cobra.Command{
		Use: "open", Short: "Open a session and print its id and token", Args: noArgs,
		Long: `Open a session and print its id and token. Nothing keeps it alive: it expires after its timeout unless "session touch",
"session hold" or another client goes on with it.

` + tokenHelp,
		Example: `  umask 077   # the token is a secret: its file is for nobody else
  holdfast session open --timeout 30s --label service=web -o json | jq -r .token > token
  holdfast session hold --token-file token`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := flags.options()
			if err != nil {
				return err
			}
			return c.withClient(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				s, err := cl.Open(ctx, options)
				if err != nil {
					return err
				}
				return c.printHeld(viewHeld(s))
			})
		},
	}
	flags.add(cmd)
	return cmd
}

type touchView struct {
	ID        idText     `json:"id"`
	SafeUntil *time.Time `json:"safe_until,omitempty"`
}

func (c *cli) sessionTouch() *cobra.Command {
	var flags tokenFlags
	cmd := &cobra.Command{
		Use: "touch", Short: "Touch a session once", Args: noArgs,
		Long: `Touch a session once, at the node that owns it, and print until when the cluster promises not to expire it: nothing
when it can promise nothing now. A session that has been resumed since the token was given is refused.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := flags.token(c.stdin)
			if err != nil {
				return err
			}
			return c.withClient(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				results, err := cl.Touch(ctx, []session.Token{token})
				if err != nil {
					return err
				}
				r := results[0]
				switch {
				case r.Err != nil && token.Local && errors.Is(r.Err, session.ErrMoved):
					return fmt.Errorf("touch session %v: its token is a local session's, which node %d alone can "+
						"touch: name that node with --endpoints, "+
						"or the session was resumed there since: %w", r.ID, r.ID.Node(), r.Err)
				case r.Err != nil:
					return fmt.Errorf("touch session %v: %w", r.ID, r.Err)
				}
				return c.print(touchView{idText(r.ID), moment(r.SafeUntil)}, func() string {
					return properties([][]string{{"id", r.ID.String()}, {"safe until", timeText(r.SafeUntil)}})
				})
			})
		},
	}
	flags.add(cmd)
	return cmd
}

func (c *cli) sessionUpgrade() *cobra.Command {
	var flags tokenFlags
	cmd := &cobra.Command{
		Use: "upgrade", Short: "Make a local session global", Args: noArgs,
		Long: `Make a local session global: it keeps its id and timeout, lives through the death of its node from then on, and can be
resumed at every node. Prints its new token. Its node is looked for. It is done once, however often it is asked for;
a global session stays as it is. When the outcome is unknown, ask again: that is safe.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := flags.token(c.stdin)
			if err != nil {
				return err
			}
			return c.withClient(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				u, err := cl.UpgradeToken(ctx, token)
				if err != nil {
					return err
				}
				return c.printHeld(heldView{
					ID: idText(u.Session.ID), Token: formatToken(u.Token), TimeoutMS: u.Session.Timeout.Milliseconds(),
					Owner: u.Session.Owner, Local: u.Session.Local, SafeUntil: moment(u.SafeUntil),
				})
			})
		},
	}
	flags.add(cmd)
	return cmd
}

func (c *cli) sessionClose() *cobra.Command {
	var flags tokenFlags
	cmd := &cobra.Command{
		Use: "close", Short: "Close a session", Args: noArgs,
		Long: `Close a session: it ends at once for everyone. A session that has been resumed since the token was given is refused.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := flags.token(c.stdin)
			if err != nil {
				return err
			}
			return c.withClient(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				if err := cl.CloseToken(ctx, token); err != nil {
					return err
				}
				return c.print(map[string]any{"id": idText(token.ID), "closed": true}, func() string {
					return token.ID.String() + " closed"
				})
			})
		},
	}
	flags.add(cmd)
	return cmd
}
