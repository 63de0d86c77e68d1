package core

// How the client tries a node that probably takes no writes: while it is at a read-only node, and when a node was
// read-only since any has served. One request that needs a leader, the probe, shows what the node is, and the others
// follow when it is done. Otherwise every client would send as many refused requests as it has sessions, in each round.
// Local sessions that the present node serves do not go along before that, because it alone knows them (L1).

// probe sends the probe to the candidate, unless one is on its way.
func (q *requests) probe(c *Conn) {
	if c.proof != nil && c.proof.Body.Wanted() {
		return
	}
	c.proof = nil
	for _, h := range q.sessions {
		if !h.token.Local {
			q.queueResume(c, h)
			c.proof = h.resuming
			return
		}
	}
	q.probeOpen(c)
}

// probeOpen probes with an open when there is no global session: with a global open, or with a local one when nothing
// else is wanted.
func (q *requests) probeOpen(c *Conn) {
	local := q.needsNoLeader()
	for call := range q.opens {
		if call.h == nil && call.on != c && call.Want.Local == local {
			c.proof = q.sendOpen(c, call)
			return
		}
	}
}

// tryNext sends the first requests to the candidate.
func (q *requests) tryNext(c *Conn) {
	if c.probing = q.readOnly(q.cur) || q.router.Refused; !c.probing {
		q.queueResumes(c)
		return
	}
	for _, h := range q.sessions {
		if h.token.Local && !q.keepsHere(h) {
			q.queueResume(c, h)
		}
	}
	q.probe(c)
}

// queueResumes resumes the sessions on the candidate. When all are local, the answers say nothing of a leader, so an
// open that needs one goes along.
func (q *requests) queueResumes(c *Conn) {
	for _, h := range q.sessions {
		if !q.keepsHere(h) {
			q.queueResume(c, h)
		}
	}
	if q.cur != nil && q.allLocal() && !q.needsNoLeader() {
		q.probeOpen(c)
	}
}

// keepsHere reports whether h gains nothing at another node. That is so for a local session that the present node
// serves or is asked for, when the lack of a leader is the only fault of that node.
func (q *requests) keepsHere(h *Session) bool {
	c := q.cur
	if c == nil || !h.token.Local || !c.leaderless() {
		return false
	}
	return h.on == c || h.on == nil && h.resuming != nil && q.readOnly(c)
}

// proved resumes the other sessions after the node has put the probe off: a node that takes no writes would have
// refused it.
func (q *requests) proved(c *Conn) {
	if !c.probing {
		return
	}
	c.probing = false
	for _, h := range q.sessions {
		if !h.token.Local && h.resuming != c.proof {
			q.queueResume(c, h)
		}
	}
}
