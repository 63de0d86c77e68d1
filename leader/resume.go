package leader

import (
	"context"

	"holdfast/session"
)

// resume proposes to move a session to the node that asks. The credential is checked first: without it a client learns
// nothing and changes nothing (K-03). A closing session is not moved (M6). Only the log decides whether the attachment
// that the request names is the present one (M1): a resume by another process may be in the log and not applied here.
func (q *requests) resume(ctx context.Context, node session.Node, r *session.ResumeRequest, done answered) {
	_, shown, err := q.authentic(&r.Token)
	switch {
	case err != nil:
		done(session.Reply{}, err)
	case shown:
		q.move(node, r, done)
	default:
		q.wait(done, func() {
			if _, err := q.madeGlobal(ctx, r.Token.ID); err != nil {
				done(session.Reply{}, err)
				return
			}
			q.move(node, r, done)
		})
	}
}

// move proposes to move a session, unless it is closing.
func (q *requests) move(node session.Node, r *session.ResumeRequest, done answered) {
	if q.registry.closing(r.Token.ID) {
		done(session.Reply{}, session.ErrClosing)
		return
	}
	q.propose(session.MoveSession{
		ID: r.Token.ID, NewOwner: node, Instance: r.Instance, Attempt: r.Attempt,
		Named: r.Token.Attachment, NamedLocal: r.Token.Local,
	}, done)
}
