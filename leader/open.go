package leader

import (
	"fmt"

	"holdfast/session"
)

// open proposes a session for the node that received the request.
func (q *requests) open(node session.Node, r *session.OpenRequest, done answered) {
	timeout, err := q.cfg.Limits.Negotiate(r.Timeout)
	if err != nil {
		done(session.Reply{}, err)
		return
	}
	if err = r.Labels.Check(); err != nil {
		done(session.Reply{}, err)
		return
	}
	ms, err := q.wall.limit(node, r.MS)
	if err != nil {
		done(session.Reply{}, err)
		return
	}
	c := session.OpenSession{
		Node: node, MS: ms, Timeout: timeout, Labels: r.Labels, RequestID: r.RequestID, Instance: r.Instance,
	}
	q.add(c, done)
}

// claim proposes a block of ids for the node that asks (O3). Only the answer hands a block out: if a deposed leader's
// entry commits and its answer is lost, nobody uses the block.
func (q *requests) claim(node session.Node, r *session.ClaimRequest, done answered) {
	if err := session.CheckClaim(r.Count); err != nil {
		done(session.Reply{}, err)
		return
	}
	ms, err := q.wall.limit(node, r.MS)
	if err != nil {
		done(session.Reply{}, err)
		return
	}
	q.propose(session.ClaimIDs{Node: node, MS: ms, Count: r.Count}, done)
}

// upgrade proposes to make a local session global, for the only node that can know the session (L7).
func (q *requests) upgrade(node session.Node, r *session.UpgradeRequest, done answered) {
	if r.ID.Node() != node {
		done(session.Reply{}, &session.FieldError{
			Field: "session_id", Limit: fmt.Sprintf("an id of node %d, which asks", node),
		})
		return
	}
	q.add(session.UpgradeSession(*r), done)
}

// add proposes a command that makes a session, if there is room. A refusal here costs neither an entry nor memory,
// because a refused client may come again and again (O4).
func (q *requests) add(c session.Command, done answered) {
	if err := q.cfg.Room(c); err != nil {
		q.stats.full.Add(1)
		done(session.Reply{}, err)
		return
	}
	q.propose(c, done)
}
