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
	"holdfast/session/words"
)

// openFlags are the flags for a new session.
type openFlags struct {
	timeout time.Duration
	labels  []string
	local   bool
}

// timeoutHelp is part of the help of every --timeout of a session.
const timeoutHelp = "at most 24h; the cluster clamps it to its limits"

// timeoutValue returns the value of a --timeout of a session.
func timeoutValue(at *time.Duration) pflag.Value {
	return arg.Positive(at, 10*time.Second, session.MaxTimeout)
}

func (f *openFlags) add(cmd *cobra.Command) {
	cmd.Flags().Var(timeoutValue(&f.timeout), "timeout", "how long the session lives without a touch, "+
		timeoutHelp)
	cmd.Flags().StringArrayVar(&f.labels, "label", nil,
		"label KEY=VALUE, or KEY= for an empty value; may be repeated")
	cmd.Flags().BoolVar(&f.local, "local", false,
		"open a local session: one node alone knows it, and it ends with that node; the cluster's setting "+
			"local_sessions must be on")
}

// open opens the session.
func (f *openFlags) open(ctx context.Context, cl *client.Client) (*client.Session, error) {
	options, err := f.options()
	if err != nil {
		return nil, err
	}
	return cl.Open(ctx, options)
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

// parseLabels reads words of the form KEY=VALUE. KEY alone is KEY with an empty value.
func parseLabels(given []string) (map[string]string, error) {
	labels := make(map[string]string, len(given))
	for _, w := range given {
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

// selectedLabels reads words of the form KEY=VALUE, or KEY for any value, by which sessions are selected. It refuses an
// empty value: nodes take it for any value, and whoever writes KEY=$UNSET wants neither all sessions with that key nor,
// as in the labels of a new session, those with the empty value.
func selectedLabels(given []string) (map[string]string, error) {
	for _, w := range given {
		if key, value, has := strings.Cut(w, "="); has && value == "" {
			return nil, usage("--label %q: the value is empty: write --label %q for any value; nodes cannot be asked for "+
				"the empty value alone, so name sessions with it by their ids", w, key)
		}
	}
	return parseLabels(given)
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
func printHeld(out *printer, v heldView) error {
	return out.print(v, func() string {
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
			{"safe until", words.Moment(until)},
		})
	})
}

// moment returns t without its monotonic reading, or nil for the zero time.
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
		Long: `Open a session and print its id and token. Nothing keeps the session alive: it expires after its
timeout unless "session touch", "session hold" or another client continues it.

` + tokenHelp,
		Example: `  umask 077   # the token is a secret: nobody else may read its file
  holdfast session open --timeout 30s --label service=web -o json | jq -r .token > token
  holdfast session hold --token-file token`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				s, err := flags.open(ctx, cl)
				if err != nil {
					return err
				}
				return printHeld(c.out, viewHeld(s))
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
	var flags tokenFlag
	cmd := &cobra.Command{
		Use: "touch", Short: "Touch a session once", Args: noArgs,
		Long: `Touch a session once, at the node that owns it, and print the time until which the cluster promises
not to expire it. The command prints no time when the cluster can promise nothing now. It fails if
the session was resumed after the token was issued.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := flags.token(cmd.Context(), c.stdin)
			if err != nil {
				return err
			}
			return c.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				results, err := cl.Touch(ctx, []session.Token{token})
				if err != nil {
					return err
				}
				r := results[0]
				switch {
				case r.Err != nil && token.Local && errors.Is(r.Err, session.ErrMoved):
					return fmt.Errorf("touch session %v: the token is a local session's, which node %d alone can "+
						"touch: name that node with --endpoints; if it refuses too, the session was resumed there "+
						"after the token was issued: %w", r.ID, r.ID.Node(), r.Err)
				case r.Err != nil:
					return fmt.Errorf("touch session %v: %w", r.ID, r.Err)
				}
				return c.out.print(touchView{idText(r.ID), moment(r.SafeUntil)}, func() string {
					return properties([][]string{{"id", r.ID.String()}, {"safe until", words.Moment(r.SafeUntil)}})
				})
			})
		},
	}
	flags.add(cmd)
	return cmd
}

func (c *cli) sessionUpgrade() *cobra.Command {
	var flags tokenFlag
	cmd := &cobra.Command{
		Use: "upgrade", Short: "Make a local session global", Args: noArgs,
		Long: `Make a local session global, and print its new token. The session keeps its id and timeout. From
then on it outlives its node, and can be resumed at every node.

The command finds the session's node by itself. It may be repeated: a global session stays as it is.
If the outcome is unknown, run the command again; that is safe.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := flags.token(cmd.Context(), c.stdin)
			if err != nil {
				return err
			}
			return c.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				u, err := cl.UpgradeToken(ctx, token)
				if err != nil {
					return err
				}
				return printHeld(c.out, heldView{
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
	var flags tokenFlag
	cmd := &cobra.Command{
		Use: "close", Short: "Close a session", Args: noArgs,
		Long: `Close a session: it ends at once for everyone. The command fails if the session was resumed after
the token was issued.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := flags.token(cmd.Context(), c.stdin)
			if err != nil {
				return err
			}
			return c.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				if err := cl.CloseToken(ctx, token); err != nil {
					return err
				}
				return c.out.print(map[string]any{"id": idText(token.ID), "closed": true}, func() string {
					return token.ID.String() + " closed"
				})
			})
		},
	}
	flags.add(cmd)
	return cmd
}
