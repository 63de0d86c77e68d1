package learner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"holdfast/session"
)

// soonest lists the sessions with the least time left, the soonest to expire first. When a session is both local and
// global, the global entry counts, as in merge.
func (r *reader) soonest(ctx context.Context, q session.Query) (session.Page, error) {
	local := r.local.list(q, r.clock.look(), r.clock.stalls.stalled())
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
	for _, l := range local.Sessions {
		if _, global := r.view.Session(l.Session.ID); !global {
			all = append(all, l)
		}
	}
	return session.Page{Sessions: earliest(all, q.Size)}, nil
}

// soonest is [Local.list] for a query of the soonest to expire. It looks at all sessions, page by page.
func soonest(l *Local, q session.Query, now time.Duration, stalls *session.Stalls) session.Page {
	first := session.Page{}
	size := q.Size
	q.Soonest, q.Size = false, session.MaxPage
	for more := true; more; more = q.After != 0 {
		page := l.list(q, now, stalls)
		first.Sessions = earliest(append(first.Sessions, page.Sessions...), size)
		q.After = page.Next
	}
	return first
}

// earliest returns those with the least time left, the soonest to expire first.
func earliest(all []session.Listed, size int) []session.Listed {
	slices.SortFunc(all, func(x, y session.Listed) int {
		return cmp.Or(cmp.Compare(x.Remaining, y.Remaining), cmp.Compare(x.Session.ID, y.Session.ID))
	})
	return all[:min(len(all), size)]
}
