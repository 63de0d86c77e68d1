package leader

import (
	"context"

	"holdfast/session"
)

// resume proposes to move a session to the node that asks. The credential is checked first: without it a client learns
// nothing and changes nothing (K-03). A closing session is not moved (M6). Only the log decides whether the attachment
// that the request names is the present one (M1): a resume by another process may be in the log and not applied here.
func (q *requests) resume(ctx context.Context, node session.Node, r *session.ResumeRequest) (session.Reply, error) {
	if _, err := q.authentic(ctx, &r.Token); err != nil {
		return session.Reply{}, err
	}
	if q.registry.closing(r.Token.ID) {
		return session.Reply{}, session.ErrClosing
	}
	move := session.MoveSession{ID: r.Token.ID, NewOwner: node, Instance: r.Instance, Attempt: r.Attempt}
	if q.logVersion() >= 1 { // former releases stop at an entry that names an attachment
		move.Named, move.NamedLocal = r.Token.Attachment, r.Token.Local
	}
	return q.propose(ctx, move)
}
