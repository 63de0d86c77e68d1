package learner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"holdfast/session"
)

// maxScan bounds the sessions one page of a list looks at; a page whose filter lets few through ends early, with a
// Next.
const maxScan = 100_000

// Find returns a session, or an ExpiredError with the certificate if that is still known. The read is linearizable: it
// sees all that was answered before it began (R4). A read-only node answers one that allows it from the state it has
// applied, without the remaining time (N3), and marks it so; an error is a session.AppliedError then. None is answered
// from an older state than the client has seen (N4).
//
// A local session of this node is shown as the node has it; so is the end of one. Nobody has seen newer state of those.
// While an upgrade of it is under way others may have (L8): then the read is as of a session of the log, until the log
// does not have it.
func (s *Server) Find(ctx context.Context, id session.ID, o session.ReadOptions) (session.Listed, error) {
	if !s.local.decides(id) {
		if err := s.reach(ctx, o.Seen); err != nil {
			return session.Listed{}, err
		}
	}
	if listed, ok := s.local.find(id, s.look(), s.stalls.stalled()); ok && s.local.decides(id) {
		return listed, nil
	}
	if c, ok := s.local.certificate(id); ok {
		return session.Listed{}, expired(&c)
	}
	if err := s.reach(ctx, o.Seen); err != nil { // what the node decided has become global since
		return session.Listed{}, err
	}
	if s.readsApplied(o) {
		return s.findApplied(id)
	}
	reply, err := s.read(ctx, []session.ID{id})
	if err != nil {
		return session.Listed{}, err
	}
	if listed, ok := s.local.find(id, s.look(), s.stalls.stalled()); ok {
		return listed, nil // its upgrade had not taken effect when the read began
	}
	found, ok := s.view.Session(id)
	if !ok {
		return session.Listed{}, s.gone(id)
	}
	return session.Listed{Session: found, Remaining: reply.Remaining[0]}, nil
}

// findApplied is Find in the applied state. What it returns says so, because the node may be read-write again before
// that is told.
func (s *Server) findApplied(id session.ID) (session.Listed, error) {
	if listed, ok := s.local.find(id, s.look(), s.stalls.stalled()); ok {
		listed.Applied = true // the log may have more of it
		return listed, nil
	}
	found, ok := s.view.Session(id)
	if !ok {
		return session.Listed{}, &session.AppliedError{Err: s.gone(id)}
	}
	return session.Listed{Session: found, Remaining: -1, Applied: true}, nil
}

// readsApplied reports whether a read is answered from the state that this node has applied, whoever leads (N3).
func (s *Server) readsApplied(o session.ReadOptions) bool { return o.AllowReadOnly && s.readOnly() }

// List returns one page of the sessions that match a filter: the replicated ones, and the local ones of this node. It
// reads as Find does. Its error is session.ErrReadOnly for a filter by remaining time that a read-only node is to
// answer from the state it has applied: it knows that of local sessions only.
func (s *Server) List(ctx context.Context, q session.Query) (session.Page, error) {
	if err := s.reach(ctx, q.Read.Seen); err != nil {
		return session.Page{}, err
	}
	if q.Filter.Scope == session.ScopeLocal {
		return s.listLocal(ctx, q)
	}
	applied := s.readsApplied(q.Read)
	if applied && (q.Filter.MinRemaining != 0 || q.Filter.MaxRemaining != 0) {
		return session.Page{}, errRemainingUnknown
	}
	if !applied {
		if _, err := s.read(ctx, nil); err != nil {
			return session.Page{}, err
		}
	}
	local := s.local.list(q, s.look(), s.stalls.stalled()) // what becomes global from now on is on both pages
	page := s.scan(q)
	page.Applied = applied
	if !applied && len(page.Sessions) > 0 {
		if err := s.addRemaining(ctx, q, &page); err != nil {
			return session.Page{}, err
		}
	}
	return merge(page, local, q.Size), nil
}

// listLocal is List of local sessions alone. It depends on no other node but for a session on the page whose upgrade is
// under way.
func (s *Server) listLocal(ctx context.Context, q session.Query) (session.Page, error) {
	page := s.local.list(q, s.look(), s.stalls.stalled())
	if !slices.ContainsFunc(page.Sessions, func(l session.Listed) bool { return !s.local.decides(l.Session.ID) }) {
		return page, nil
	}
	if s.readsApplied(q.Read) {
		page.Applied = true // the log may have more of it
		return page, nil
	}
	if _, err := s.read(ctx, nil); err != nil {
		return session.Page{}, err
	}
	return s.local.list(q, s.look(), s.stalls.stalled()), nil
}

// addRemaining asks for the remaining times of a page's sessions, and keeps those that match.
func (s *Server) addRemaining(ctx context.Context, q session.Query, page *session.Page) error {
	ids := make([]session.ID, len(page.Sessions))
	for i := range page.Sessions {
		ids[i] = page.Sessions[i].Session.ID
	}
	reply, err := s.read(ctx, ids)
	if err != nil {
		return err
	}
	kept := page.Sessions[:0]
	for i, listed := range page.Sessions {
		listed.Remaining = reply.Remaining[i]
		if q.Filter.MatchRemaining(listed.Remaining) {
			kept = append(kept, listed)
		}
	}
	page.Sessions = kept
	return nil
}

// errRemainingUnknown refuses a filter by remaining time for as long as the node is read-only: another one can answer
// it.
var errRemainingUnknown = fmt.Errorf("%w: nobody it hears of knows how long sessions have", session.ErrReadOnly)

// scan gathers what passes the filter as far as the state tells, without remaining times.
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
			page.Sessions = append(page.Sessions, session.Listed{Session: found, Remaining: -1})
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
