package learner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"holdfast/learner/local"
	"holdfast/session"
)

// maxScan bounds the sessions that one page of a list examines. A page whose filter matches few sessions ends early,
// with a Next.
const maxScan = local.MaxScan

// errRemainingUnknown refuses a filter by remaining time while the node is read-only. Another node can answer.
var errRemainingUnknown = fmt.Errorf("%w: the remaining time is unknown without a leader", session.ErrReadOnly)

// reader answers reads of sessions. Safe for concurrent use.
type reader struct {
	view      View
	clock     *clock
	modeFacts *modeFacts
	wait      *applyWait
	local     *local.Table
	registry  *registry
	upstream  *upstream
}

// find implements [Server.Find].
func (r *reader) find(ctx context.Context, id session.ID, o session.ReadOptions) (session.Listed, error) {
	if !r.local.Decides(id) {
		if err := r.wait.seen(ctx, o.Seen); err != nil {
			return session.Listed{}, err
		}
	}
	if listed, ok := r.findLocal(id); ok && r.local.Decides(id) {
		return listed, nil
	}
	if c, ok := r.local.Certificate(id); ok {
		return session.Listed{}, expired(&c)
	}
	if err := r.wait.seen(ctx, o.Seen); err != nil { // a local session has become global since
		return session.Listed{}, err
	}
	if r.readsApplied(o) {
		return r.findApplied(id)
	}
	reply, err := r.sync(ctx, []session.ID{id})
	if err != nil {
		return session.Listed{}, err
	}
	if listed, ok := r.findLocal(id); ok {
		return listed, nil // the upgrade had not taken effect when the read began
	}
	found, ok := r.view.Session(id)
	if !ok {
		return session.Listed{}, r.registry.gone(id)
	}
	return session.Listed{Session: found, Remaining: reply.Remaining[0]}, nil
}

// findLocal finds a local session of this node.
func (r *reader) findLocal(id session.ID) (session.Listed, bool) {
	return r.local.Find(id, r.clock.checkedNow(), r.clock.stalls.stalled())
}

// findApplied reads a session from the applied state. It marks the result as applied itself, because the node may be
// read-write again by the time of the answer.
func (r *reader) findApplied(id session.ID) (session.Listed, error) {
	if listed, ok := r.findLocal(id); ok {
		listed.Applied = true // the log may have a newer state
		return listed, nil
	}
	found, ok := r.view.Session(id)
	if !ok {
		return session.Listed{}, &session.AppliedError{Err: r.registry.gone(id)}
	}
	return session.Listed{Session: found, Remaining: -1, Applied: true}, nil
}

// readsApplied reports whether the node answers a read from its applied state, without a leader (N3 stale reads).
func (r *reader) readsApplied(o session.ReadOptions) bool {
	return o.AllowReadOnly && r.modeFacts.readOnly()
}

// list implements [Server.List].
func (r *reader) list(ctx context.Context, q session.Query) (session.Page, error) {
	if err := r.wait.seen(ctx, q.Read.Seen); err != nil {
		return session.Page{}, err
	}
	if q.Filter.Scope == session.ScopeLocal {
		return r.listLocal(ctx, q)
	}
	applied := r.readsApplied(q.Read)
	if applied && (q.Soonest || q.Filter.MinRemaining != 0 || q.Filter.MaxRemaining != 0) {
		return session.Page{}, errRemainingUnknown
	}
	if q.Soonest {
		return r.soonest(ctx, q)
	}
	if !applied {
		if _, err := r.sync(ctx, nil); err != nil {
			return session.Page{}, err
		}
	}
	locals := r.local.List(q, r.clock.checkedNow(), r.clock.stalls.stalled()) // a later upgrade puts a session on both pages
	page := r.scan(q)
	page.Applied = applied
	if !applied && len(page.Sessions) > 0 {
		if err := r.addRemaining(ctx, q, &page); err != nil {
			return session.Page{}, err
		}
	}
	return merge(page, locals, q.Size), nil
}

// listLocal lists local sessions only. It depends on another node only while a session on the page is being upgraded.
func (r *reader) listLocal(ctx context.Context, q session.Query) (session.Page, error) {
	page := r.local.List(q, r.clock.checkedNow(), r.clock.stalls.stalled())
	if !slices.ContainsFunc(page.Sessions, func(l session.Listed) bool { return !r.local.Decides(l.Session.ID) }) {
		return page, nil
	}
	if r.readsApplied(q.Read) {
		page.Applied = true // the log may have a newer state
		return page, nil
	}
	if _, err := r.sync(ctx, nil); err != nil {
		return session.Page{}, err
	}
	return r.local.List(q, r.clock.checkedNow(), r.clock.stalls.stalled()), nil
}

// addRemaining asks the leader for the remaining times of a page's sessions, and keeps the matching sessions.
func (r *reader) addRemaining(ctx context.Context, q session.Query, page *session.Page) error {
	ids := make([]session.ID, len(page.Sessions))
	for i := range page.Sessions {
		ids[i] = page.Sessions[i].Session.ID
	}
	reply, err := r.sync(ctx, ids)
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

// scan collects the matching sessions of the state, without remaining times.
func (r *reader) scan(q session.Query) session.Page {
	var page session.Page
	scanned := 0
	var last session.ID
	r.view.Ascend(q.After, func(found session.Session) bool {
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

// sync returns once this node has applied everything that was committed when the call began (R4 leadership needs a good
// round), with the remaining times of ids.
func (r *reader) sync(ctx context.Context, ids []session.ID) (session.Reply, error) {
	reply, err := r.upstream.ask(ctx, session.Request{Read: &session.ReadRequest{Remaining: ids}})
	if err != nil {
		return session.Reply{}, err
	}
	if len(reply.Remaining) != len(ids) {
		return session.Reply{}, fmt.Errorf("%w: read of %d sessions: got %d remaining times", errProtocol, len(ids),
			len(reply.Remaining))
	}
	return reply, r.wait.index(ctx, reply.Index)
}

// merge merges two pages, each of which is complete up to its Next. If both have a session, the global entry counts:
// the session became global after the local page was made.
func merge(global, ours session.Page, size int) session.Page {
	next := global.Next
	if next == 0 || ours.Next != 0 && ours.Next < next {
		next = ours.Next
	}
	all := slices.Concat(global.Sessions, ours.Sessions)
	slices.SortStableFunc(all, func(x, y session.Listed) int { return cmp.Compare(x.Session.ID, y.Session.ID) })
	all = slices.CompactFunc(all, func(x, y session.Listed) bool { return x.Session.ID == y.Session.ID })
	if next != 0 {
		i, _ := slices.BinarySearchFunc(all, next+1, func(x session.Listed, id session.ID) int {
			return cmp.Compare(x.Session.ID, id)
		})
		all = all[:i]
	}
	if len(all) > size {
		all = all[:size]
		next = all[size-1].Session.ID
	}
	return session.Page{Sessions: all, Next: next, Applied: global.Applied}
}
