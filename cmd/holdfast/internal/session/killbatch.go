package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/session"
	"holdfast/session/words"
)

// Outcomes of a kill.
const (
	outcomeKilled  = "killed"
	outcomeEnded   = "ended" // before the command
	outcomeFailed  = "failed"
	outcomeUnknown = "unknown" // a node may have ended it
	outcomeWould   = "would be killed"
)

// killedView is the outcome of the kill of one session, in JSON.
type killedView struct {
	ID view.ID `json:"id"`
	// Outcome is killed, ended (before), failed, unknown (a node may have ended it), or would be killed.
	Outcome string `json:"outcome"`
	Index   uint64 `json:"index,omitempty"`
	Error   string `json:"error,omitempty"`
}

// killTries bounds the attempts for a session that was moving or ending.
const killTries = 3

// killAll kills sessions in batches, each with the time limit of a call, and reports progress.
func killAll(ctx context.Context, env *cli.Env, cl *client.Client, ids []session.ID, reason string) error {
	views := make([]killedView, len(ids))
	for i, id := range ids {
		views[i] = killedView{ID: view.ID(id), Outcome: outcomeFailed, Error: "not tried"}
	}
	var err error
	done := 0
	for batch := range slices.Chunk(ids, session.MaxKill) {
		if err = killBatch(ctx, env, cl, views[done:done+len(batch)], reason); err != nil {
			break
		}
		if done += len(batch); len(ids) > session.MaxKill {
			env.Out.Messagef("holdfast: %d of %d sessions done\n", done, len(ids))
		}
	}
	return errors.Join(killedError(views, err), printKilled(env, views))
}

// killedError returns the error of the command. err is the error of the last request. When a node may have killed a
// session, the error hides err, so that it is never a [client.ErrUnreachable].
func killedError(views []killedView, err error) error {
	outcomes := make(map[string]int)
	for i := range views {
		outcomes[views[i].Outcome]++
	}
	unknown, failed := outcomes[outcomeUnknown], outcomes[outcomeFailed]
	switch {
	case unknown > 0 && err != nil:
		return fmt.Errorf("%d of %d sessions may live on or may have ended: it is safe to run the command again: %v",
			unknown, len(views), err) //nolint:errorlint // hides err on purpose
	case unknown > 0:
		return fmt.Errorf("%d of %d sessions may live on or may have ended: it is safe to run the command again",
			unknown, len(views))
	case err != nil:
		return err
	case failed > 0:
		return fmt.Errorf("%d of %d sessions live on: run the command again", failed, len(views))
	}
	return nil
}

// killBatch kills up to [session.MaxKill] sessions, and records their outcomes in views. It retries sessions that were
// moving or ending.
func killBatch(ctx context.Context, env *cli.Env, cl *client.Client, views []killedView, reason string) error {
	left := make([]*killedView, len(views))
	for i := range views {
		left[i] = &views[i]
	}
	for try := 1; len(left) > 0; try++ {
		ids := make([]session.ID, len(left))
		for i, v := range left {
			ids[i] = session.ID(v.ID)
		}
		killed, err := cli.Timed(ctx, env.Cluster, func(ctx context.Context) ([]session.Killed, error) {
			return cl.Kill(ctx, ids, reason)
		})
		if err != nil {
			recordUnanswered(env, left, err)
			return err
		}
		var again []*killedView
		for i, v := range left {
			v.record(killed[i])
			if v.mayLive() && try < killTries && !errors.Is(killed[i].Err, session.ErrExpired) {
				again = append(again, v)
			}
		}
		left = again
	}
	return nil
}

// recordUnanswered records that a request failed as a whole. A node may have carried the request out and not answered:
// the outcome is unknown unless the node refused, or no server received the request.
func recordUnanswered(env *cli.Env, views []*killedView, err error) {
	if refused(err) || !env.Cluster.MayHaveSent() {
		return
	}
	for _, v := range views {
		v.Outcome, v.Error = outcomeUnknown, "requested, but no node answered"
	}
}

// mayLive reports whether the session may live on.
func (v *killedView) mayLive() bool { return v.Outcome == outcomeFailed || v.Outcome == outcomeUnknown }

// record records the answer of a node about the session.
func (v *killedView) record(k session.Killed) {
	before := v.Outcome
	*v = viewKilled(session.ID(v.ID), k)
	if before == outcomeUnknown && v.Outcome == outcomeFailed {
		v.Outcome = outcomeUnknown // a refusal does not decide an earlier request
	}
}

func viewKilled(id session.ID, k session.Killed) killedView {
	v := killedView{ID: view.ID(id), Outcome: outcomeKilled, Index: k.Index}
	gone, ended := errors.AsType[*session.ExpiredError](k.Err)
	switch {
	case k.Err == nil:
	case ended && gone.LocalTo != 0:
		v.Outcome = outcomeFailed
		v.Error = fmt.Sprintf("if it lives, it is local to node %d, which is not a member", gone.LocalTo)
	case ended && gone.Certificate != nil:
		v.Outcome, v.Error = outcomeEnded, "already "+gone.Certificate.Cause.String()
	case ended:
		v.Outcome, v.Error = outcomeEnded, "no such session"
	case refused(k.Err):
		v.Outcome, v.Error = outcomeFailed, cli.OneLine(k.Err)
	default:
		v.Outcome, v.Error = outcomeUnknown, cli.OneLine(k.Err)
	}
	return v
}

// refused reports whether err proves that no node carried the request out: a node refused it, or no node could be
// asked. Any other error, such as a timeout or a node that does not answer, leaves the outcome open.
func refused(err error) bool {
	undecided := []error{session.ErrOutcomeUnknown, context.DeadlineExceeded, context.Canceled}
	nothing := []error{
		session.ErrUnauthenticated, session.ErrForbidden, session.ErrInvalid,
		session.ErrLimit, session.ErrClosing, session.ErrMoved, session.ErrNoLeader, session.ErrNotLeader,
		session.ErrStopping, session.ErrDraining, session.ErrReadOnly, session.ErrLagging,
	}
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case is(session.ErrTLS):
		return true
	case slices.ContainsFunc(undecided, is):
		return false
	case slices.ContainsFunc(nothing, is):
		return true
	}
	return cli.LacksServices(err) || status.Code(err) == codes.Unimplemented
}

// printKilled prints the outcomes.
func printKilled(env *cli.Env, views []killedView) error {
	return env.Out.Print(views, func() string {
		killed := 0
		rows := make([][]string, len(views))
		for i, v := range views {
			if v.Outcome == outcomeKilled {
				killed++
			}
			rows[i] = []string{session.ID(v.ID).String(), v.Outcome, words.OrDash(v.Error)}
		}
		return cli.Table([]string{"ID", "OUTCOME", "NOTE"}, rows) +
			fmt.Sprintf("\n%d of %d sessions killed", killed, len(views))
	})
}
