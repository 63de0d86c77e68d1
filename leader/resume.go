package leader

import (
	"context"

	"holdfast/session"
)

// resume proposes to move a session to the node that asks. The credential is checked first: without it a client learns
// nothing and changes nothing (K-03). A closing session is not moved (M6). Only the log decides whether the attachment
// that the request names is the present one (M1): a resume by another process may be in the log and not applied here.
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

// move proposes to move a session, unless it is closing or its holder keeps it.
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
