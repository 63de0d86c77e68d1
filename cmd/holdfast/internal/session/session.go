// Package session has the commands "holdfast session": they open, keep alive, show and end sessions.
package session

import (
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/session"
	"holdfast/session/words"
)

// New returns the commands.
func New(env *cli.Env) []*cobra.Command {
	return []*cobra.Command{cli.Group("session", "Open, keep alive, show and end sessions",
		newOpen(env), newKeepAlive(env), newTouch(env), newUpgrade(env), newClose(env),
		newList(env), newShow(env), newWatch(env), newExplain(env), newDeaths(env),
		newKill(env), newExtend(env))}
}

// tokenFlags are the flags of commands that take a session by its token.
type tokenFlags struct{ token cli.TokenFlag }

// tokenView is a session with its token in JSON.
type tokenView struct {
	ID        view.ID      `json:"id"`
	Token     string       `json:"token"`
	TimeoutMS int64        `json:"timeout_ms"`
	Owner     session.Node `json:"owner"`
	Local     bool         `json:"local,omitempty"`
	SafeUntil *time.Time   `json:"safe_until,omitempty"`
}

func printToken(env *cli.Env, s session.Session, token session.Token, safeUntil time.Time) error {
	v := tokenView{
		ID: view.ID(s.ID), Token: cli.FormatToken(token), TimeoutMS: s.Timeout.Milliseconds(), Owner: s.Owner,
		Local: s.Local, SafeUntil: view.Time(safeUntil),
	}
	return env.Out.Print(v, func() string {
		return cli.Properties([][]string{
			{"id", s.ID.String()},
			{"token", v.Token},
			{"timeout", s.Timeout.String()},
			{"owner", cli.Number(s.Owner)},
			{"scope", cli.Scope(s.Local)},
			{"safe until", words.Moment(safeUntil)},
		})
	})
}

// printOpened prints a session of the SDK with its token.
func printOpened(env *cli.Env, s *client.Session) error {
	return printToken(env,
		session.Session{
			ID: s.ID(), Spec: session.Spec{Timeout: s.Timeout()}, Owner: s.Owner(),
			Local: s.Local(),
		}, s.Token(), s.SafeUntil())
}
