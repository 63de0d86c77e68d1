package leader

import (
	"fmt"

	"holdfast/session"
)

// open proposes a session for the requesting node.
func (q *requests) open(node session.Node, r *session.OpenRequest, done answered) {
	timeout, err := q.cfg.Limits.Negotiate(r.Timeout)
	if err != nil {
		done(session.Reply{}, err)
		return
	}
	if err = r.CheckSpec(); err != nil {
		done(session.Reply{}, err)
		return
	}
	ms, err := q.wall.limit(node, r.MS)
	if err != nil {
		done(session.Reply{}, err)
		return
	}
	c := session.OpenSession{Node: node, MS: ms, Spec: r.Spec, RequestID: r.RequestID, Instance: r.Instance}
	c.Timeout = timeout
	q.add(c, done)
}

// claim proposes a block of ids for the requesting node (O3 id blocks). Only the reply hands the block out: if a
// deposed leader's entry commits and its reply is lost, no node uses the block.
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

// upgrade proposes to make a local session global. Only the session's own node can know the session (L7 upgrade).
func (q *requests) upgrade(node session.Node, r *session.UpgradeRequest, done answered) {
	if r.ID.Node() != node {
		done(session.Reply{}, &session.FieldError{
			Field: "session_id", Limit: fmt.Sprintf("an id of node %d, which asks", node),
		})
		return
	}
	q.add(session.UpgradeSession(*r), done)
}

// add proposes a command that makes a session, if the state has space. A refusal here costs neither an entry nor
// memory, because a refused client may come again and again (O4 state limits).
func (q *requests) add(c session.Command, done answered) {
	if err := q.cfg.CheckCapacity(c); err != nil {
		q.stats.full.Add(1)
		done(session.Reply{}, err)
		return
	}
	q.propose(c, done)
}
