package leader

import (
	"errors"

	"holdfast/session"
)

// maxMoving is the number of sessions of one stream that requests for many are moving at once; more are refused.
const maxMoving = 1 << 17

// resumes proposes to move many sessions to the node that asks, with the checks of resume for each of them. The
// sessions that pass are one command, with one place in the order of closes and moves (E3). The others are refused.
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

// movable returns why a session is not moved, as far as this node can tell without the log: see resume.
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
	// at are the positions of the sessions that are proposed to be moved.
	at []int
	// term and index are those of the entry of the moves, 0 without one. told says that a refusal tells what the
	// log has decided.
	term, index uint64
	told        bool
	// moved is what became of the sessions.
	moved []session.MoveResult
}

func (b *bulk) refuse(i int, err error) {
	b.moved[i] = session.MoveResult{Err: err}
	b.told = b.told || errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrMoved)
}

// decided takes the result of the command.
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

// finish answers. The learner tells its client once it has applied the moves and the ends that a refusal tells (N4).
func (b *bulk) finish() {
	reply := session.Reply{Term: b.term, Index: b.index, Moved: b.moved}
	if b.told {
		reply.Index = max(reply.Index, b.requests.view.CommitIndex())
	}
	b.done(reply, nil)
}
