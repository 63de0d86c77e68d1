package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/client"
	"holdfast/session"
	"holdfast/session/words"
)

// What became of a session.
const (
	outcomeKilled  = "killed"
	outcomeEnded   = "ended" // before
	outcomeFailed  = "failed"
	outcomeUnknown = "unknown" // a node may have ended it
	outcomeWould   = "would be killed"
)

// killedView is what became of one session, in JSON.
type killedView struct {
	ID idText `json:"id"`
	// Outcome is killed, ended (before), failed, unknown (a node may have ended it), or would be killed.
	Outcome string `json:"outcome"`
	Index   uint64 `json:"index,omitempty"`
	Error   string `json:"error,omitempty"`
}

// killTries is how often a session is tried whose end or move was under way.
const killTries = 3

// killAll ends sessions in batches, each with the time limit of a call, and says how far it has come.
func (c *cli) killAll(ctx context.Context, cl *client.Client, ids []session.ID, why string) error {
	views := make([]killedView, len(ids))
	for i, id := range ids {
		views[i] = killedView{ID: idText(id), Outcome: outcomeFailed, Error: "not tried"}
	}
	var err error
	done := 0
	for batch := range slices.Chunk(ids, session.MaxKill) {
		if err = c.killBatch(ctx, cl, views[done:done+len(batch)], why); err != nil {
			break
		}
		if done += len(batch); len(ids) > session.MaxKill {
			c.out.complain("holdfast: %d of %d sessions done\n", done, len(ids))
		}
	}
	return errors.Join(killedError(views, err), printKilled(c.out, views))
}

// killedError returns the error of a command that ended sessions. err is that of the request after which it tried no
// more. Where a node may have done what it was asked for, the error is never [client.ErrUnreachable].
func killedError(views []killedView, err error) error {
	outcomes := make(map[string]int)
	for i := range views {
		outcomes[views[i].Outcome]++
	}
	unknown, failed := outcomes[outcomeUnknown], outcomes[outcomeFailed]
	switch {
	case unknown > 0 && err != nil:
		return fmt.Errorf("%d of %d sessions may live on, and may have ended: run the command again, which is safe: %v",
			unknown, len(views), err) //nolint:errorlint // it hides what err is
	case unknown > 0:
		return fmt.Errorf("%d of %d sessions may live on, and may have ended: run the command again, which is safe",
			unknown, len(views))
	case err != nil:
		return err
	case failed > 0:
		return fmt.Errorf("%d of %d sessions live on: run the command again", failed, len(views))
	}
	return nil
}

// killBatch ends up to [session.MaxKill] sessions, and notes in their views what became of them. It tries those again
// that were moving or ending meanwhile.
func (c *cli) killBatch(ctx context.Context, cl *client.Client, views []killedView, why string) error {
	left := make([]*killedView, len(views))
	for i := range views {
		left[i] = &views[i]
	}
	for try := 1; len(left) > 0; try++ {
		ids := make([]session.ID, len(left))
		for i, v := range left {
			ids[i] = session.ID(v.ID)
		}
		killed, err := onePage(ctx, c.target, func(ctx context.Context) ([]session.Killed, error) {
			return cl.Kill(ctx, ids, why)
		})
		if err != nil {
			c.target.unanswered(left, err)
			return err
		}
		var again []*killedView
		for i, v := range left {
			v.is(killed[i])
			if v.undone() && try < killTries && !errors.Is(killed[i].Err, session.ErrExpired) {
				again = append(again, v)
			}
		}
		left = again
	}
	return nil
}

// unanswered notes that a request about sessions failed as a whole. A node that answers late has ended them all the
// same, so only a refusal, or that no server was there to get the request, says that they live on.
func (t *target) unanswered(views []*killedView, err error) {
	if refused(err) || !t.dialer.spoke() {
		return
	}
	for _, v := range views {
		v.Outcome, v.Error = outcomeUnknown, "asked for, and no answer came"
	}
}

// undone reports whether the session may live on.
func (v *killedView) undone() bool { return v.Outcome == outcomeFailed || v.Outcome == outcomeUnknown }

// is notes what a node said of the session.
func (v *killedView) is(k session.Killed) {
	before := v.Outcome
	*v = viewKilled(session.ID(v.ID), k)
	if before == outcomeUnknown && v.Outcome == outcomeFailed {
		v.Outcome = outcomeUnknown // a refusal says nothing of an earlier request
	}
}

func viewKilled(id session.ID, k session.Killed) killedView {
	v := killedView{ID: idText(id), Outcome: outcomeKilled, Index: k.Index}
	gone, ended := errors.AsType[*session.ExpiredError](k.Err)
	switch {
	case k.Err == nil:
	case ended && gone.LocalTo != 0:
		v.Outcome = outcomeFailed
		v.Error = fmt.Sprintf("if it lives, it is local to node %d, which is no member", gone.LocalTo)
	case ended && gone.Certificate != nil:
		v.Outcome, v.Error = outcomeEnded, "it had "+gone.Certificate.Cause.String()+" before"
	case ended:
		v.Outcome, v.Error = outcomeEnded, "no such session"
	case refused(k.Err):
		v.Outcome, v.Error = outcomeFailed, oneLine(k.Err)
	default:
		v.Outcome, v.Error = outcomeUnknown, oneLine(k.Err)
	}
	return v
}

// refused reports whether err is a node's word that it did nothing, or that no node could be asked. All else leaves
// open what became of the request: that the time for it ended, a node that is silent, an error without a reason.
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
	return lacksServices(err) || status.Code(err) == codes.Unimplemented
}

// printKilled prints what became of sessions.
func printKilled(out *printer, views []killedView) error {
	return out.print(views, func() string {
		killed := 0
		rows := make([][]string, len(views))
		for i, v := range views {
			if v.Outcome == outcomeKilled {
				killed++
			}
			rows[i] = []string{session.ID(v.ID).String(), v.Outcome, words.OrDash(v.Error)}
		}
		return columns([]string{"ID", "OUTCOME", "NOTE"}, rows) +
			fmt.Sprintf("\n%d of %d sessions killed", killed, len(views))
	})
}
