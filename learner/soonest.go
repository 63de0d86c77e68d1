package learner

import (
	"context"
	"fmt"

	"holdfast/learner/local"
	"holdfast/session"
)

// soonest lists the sessions with the least time left, the next to expire first. If a session is both local and global,
// the global entry counts, as in merge.
func (r *reader) soonest(ctx context.Context, q session.Query) (session.Page, error) {
	locals := r.local.List(q, r.clock.checkedNow(), r.clock.stalls.stalled())
	reply, err := r.upstream.ask(ctx, session.Request{Soonest: &session.SoonestRequest{Size: q.Size, Filter: q.Filter}})
	if err != nil {
		return session.Page{}, err
	}
	if len(reply.Soonest) != len(reply.Remaining) {
		return session.Page{}, fmt.Errorf("%w: %d sessions with %d remaining times", errProtocol, len(reply.Soonest),
			len(reply.Remaining))
	}
	if err := r.wait.index(ctx, reply.Index); err != nil {
		return session.Page{}, err
	}
	var all []session.Listed
	for i, id := range reply.Soonest {
		if found, ok := r.view.Session(id); ok && q.Filter.Match(&found) { // it has not ended or moved since
			all = append(all, session.Listed{Session: found, Remaining: reply.Remaining[i]})
		}
	}
	for _, l := range locals.Sessions {
		if _, global := r.view.Session(l.Session.ID); !global {
			all = append(all, l)
		}
	}
	return session.Page{Sessions: local.Earliest(all, q.Size)}, nil
}
