package leader

import (
	"errors"

	"holdfast/session"
)

// maxMoving bounds the sessions that the resumes of many sessions on one stream move at once; more are refused.
const maxMoving = 1 << 17

// resumes proposes to move many sessions to the requesting node, after the checks of resume for each session. The
// sessions that pass become one command, with one place in the order of closes and moves (E3 ordered closes). The
// others are refused.
func (q *requests) resumes(node session.Node, r *session.ResumesRequest, done answered) {
	b := &bulk{requests: q, moved: make([]session.MoveResult, len(r.Sessions)), done: done}
	c := session.MoveSessions{
		NewOwner: node, Instance: r.Instance, Sessions: make([]session.Moving, 0, len(r.Sessions)),
	}
	for i := range r.Sessions {
		one := &r.Sessions[i]
		if err := q.movable(one.Token(), r.Instance, node); err != nil {
			b.refuse(i, err)
			continue
		}
		c.Sessions = append(c.Sessions, session.Moving{ID: one.ID, Attempt: one.Attempt, Named: one.Attachment})
		b.at = append(b.at, i)
	}
	if len(b.at) == 0 {
		b.finish()
		return
	}
	q.log.Submit(c, b.decided)
}

// movable returns the error for a session that must not move, as far as this node knows without the log: see resume.
func (q *requests) movable(token session.Token, instance uint64, to session.Node) error {
	one, _, err := q.authentic(&token)
	switch {
	case err != nil:
		return err
	case q.registry.closing(token.ID):
		return session.ErrClosing
	default:
		return q.takeOvers.refusal(&one, instance, to)
	}
}

// bulk is a request for many moves that waits for the log.
type bulk struct {
	requests *requests
	done     answered
	// at are the positions of the sessions in the proposal.
	at []int
	// term and index are the entry's of the moves; 0 without one. byLog says that a refusal reports a decision of the
	// log.
	term, index uint64
	byLog       bool
	// moved has the outcome for each session.
	moved []session.MoveResult
}

func (b *bulk) refuse(i int, err error) {
	b.moved[i] = session.MoveResult{Err: err}
	b.byLog = b.byLog || errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrMoved)
}

// decided processes the result of the command.
func (b *bulk) decided(result session.Result, err error) {
	if err == nil {
		err = b.requests.decided(&result)
	}
	if err == nil && len(result.Moved) != len(b.at) {
		err = session.ErrOutcomeUnknown
	}
	b.term, b.index = result.Term, result.Index
	for n, i := range b.at {
		switch {
		case err != nil:
			b.refuse(i, err)
		case result.Moved[n].Err != nil:
			b.refuse(i, result.Moved[n].Err)
		default:
			b.moved[i] = result.Moved[n]
		}
	}
	b.finish()
}

// finish replies. The learner answers its client after it has applied the moves, and the ends and moves that refusals
// report (N4 seen index).
func (b *bulk) finish() {
	reply := session.Reply{Term: b.term, Index: b.index, Moved: b.moved}
	if b.byLog {
		reply.Index = max(reply.Index, b.requests.view.CommitIndex())
	}
	b.done(reply, nil)
}
