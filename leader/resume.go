package leader

import (
	"context"

	"holdfast/session"
)

// resume proposes to move a session to the requesting node. It checks the credential first: without the credential a
// client learns nothing and changes nothing (K-03). A closing session is not moved (M6 closing sessions stay). Only the
// log decides whether the request names the present attachment (M1 a resume is a move): the log may have a resume by
// another process that this node has not applied.
func (q *requests) resume(ctx context.Context, node session.Node, r *session.ResumeRequest, done answered) {
	one, shown, err := q.authentic(&r.Token)
	switch {
	case err != nil:
		done(session.Reply{}, err)
	case shown:
		q.move(node, r, &one, done)
	default:
		q.wait(done, func() {
			one, err := q.madeGlobal(ctx, r.Token.ID)
			if err != nil {
				done(session.Reply{}, err)
				return
			}
			q.move(node, r, &one, done)
		})
	}
}

// move proposes to move a session. It refuses for a closing session, and for a session whose holder keeps it.
func (q *requests) move(node session.Node, r *session.ResumeRequest, one *session.Session, done answered) {
	if q.registry.closing(r.Token.ID) {
		done(session.Reply{}, session.ErrClosing)
		return
	}
	if err := q.takeOvers.refusal(one, r.Instance, node); err != nil {
		done(session.Reply{}, err)
		return
	}
	q.propose(session.MoveSession{
		ID: r.Token.ID, NewOwner: node, Instance: r.Instance, Attempt: r.Attempt,
		Named: r.Token.Attachment, NamedLocal: r.Token.Local,
	}, done)
}
