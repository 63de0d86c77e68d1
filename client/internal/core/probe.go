package core

// How a node is tried of which it is likely that it takes no writes: while the client is at a read-only node, and when
// one was read-only since any has served. One request that only a node in touch with a leader can do shows what it is,
// instead of as many as the client has sessions, from each client and in each round; the others follow when it has been
// done. The local sessions that the present node serves do not go along before that: it alone knows them (L1).

// probe sends the request that shows what the node of the connection that is tried can do, unless that is on its way.
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

// probeOpen is probe when there is no session that shows it: a global open does, and a local one if there is nothing
// else to do.
func (q *requests) probeOpen(c *Conn) {
	local := q.needsNoLeader()
	for call := range q.opens {
		if call.h == nil && call.on != c && call.Want.Local == local {
			c.proof = q.sendOpen(c, call)
			return
		}
	}
}

// tryNext begins to ask the connection that has come up.
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

// queueResumes has the sessions resumed on the connection that is tried. When all are local, what it does for them
// decides nothing for an open that waits for a leader: that goes along.
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

// keepsHere reports whether h has nothing to gain elsewhere: it is local, and the present node, which is left for the
// lack of a leader and for nothing else, serves it or is asked for it.
func (q *requests) keepsHere(h *Session) bool {
	c := q.cur
	if c == nil || !h.token.Local || !c.leaderless() {
		return false
	}
	return h.on == c || h.on == nil && h.resuming != nil && q.readOnly(c)
}

// proved has the others follow a probe that the node has put off: one that takes no writes would have refused it.
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
