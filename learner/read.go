package learner

import (
	"context"
	"errors"

	"holdfast/session"
)

// maxScan bounds the sessions one page of a list looks at; a page whose filter lets few through ends early, with a Next.
const maxScan = 100_000

// Find returns a session, or an ExpiredError with the certificate if that is still known. The read is linearizable: it
// sees all that was answered before it began (R4).
//
// A local session of this node is shown as the node has it; so is the end of one.
func (s *Server) Find(ctx context.Context, id session.ID) (session.Listed, error) {
	if listed, ok := s.local.find(id, s.look(), s.pulse.vouched()); ok {
		return listed, nil
	}
	if c, ok := s.local.certificate(id); ok {
		return session.Listed{}, expired(&c)
	}
	reply, err := s.read(ctx, []session.ID{id})
	if err != nil {
		return session.Listed{}, err
	}
	found, ok := s.view.Session(id)
	if !ok {
		return session.Listed{}, s.gone(id)
	}
	return session.Listed{Session: found, Remaining: reply.Remaining[0]}, nil
}

// List returns one page of the sessions that match a filter: the replicated ones, and the local ones of this node.
func (s *Server) List(ctx context.Context, q session.Query) (session.Page, error) {
	local := s.local.list(q, s.look(), s.pulse.vouched())
	if q.Filter.Scope == session.ScopeLocal {
		return local, nil
	}
	page, err := s.listGlobal(ctx, q)
	if err != nil {
		return session.Page{}, err
	}
	return merge(page, local, q.Size), nil
}

func (s *Server) listGlobal(ctx context.Context, q session.Query) (session.Page, error) {
	if _, err := s.read(ctx, nil); err != nil {
		return session.Page{}, err
	}
	page := s.scan(q)
	if len(page.Sessions) == 0 {
		return page, nil
	}
	ids := make([]session.ID, len(page.Sessions))
	for i := range page.Sessions {
		ids[i] = page.Sessions[i].Session.ID
	}
	reply, err := s.read(ctx, ids)
	if err != nil {
		return session.Page{}, err
	}
	kept := page.Sessions[:0]
	for i, listed := range page.Sessions {
		listed.Remaining = reply.Remaining[i]
		if q.Filter.MatchRemaining(listed.Remaining) {
			kept = append(kept, listed)
		}
	}
	page.Sessions = kept
	return page, nil
}

// scan gathers what passes the filter as far as the state tells.
func (s *Server) scan(q session.Query) session.Page {
	var page session.Page
	scanned := 0
	var last session.ID
	s.view.Ascend(q.After, func(found session.Session) bool {
		if len(page.Sessions) == q.Size || scanned == maxScan {
			page.Next = last
			return false
		}
		scanned++
		last = found.ID
		if q.Filter.Match(&found) {
			page.Sessions = append(page.Sessions, session.Listed{Session: found})
		}
		return true
	})
	return page
}

var errShortReply = errors.New("leader's reply is shorter than the request")

// read returns once this node has applied all that was answered before the call, with the remaining times of ids.
func (s *Server) read(ctx context.Context, ids []session.ID) (session.Reply, error) {
	reply, err := s.ask(ctx, session.Request{Read: &session.ReadRequest{Remaining: ids}})
	if err != nil {
		return session.Reply{}, err
	}
	if len(reply.Remaining) != len(ids) {
		return session.Reply{}, errShortReply
	}
	return reply, s.waitApplied(ctx, reply.Index)
}
