package session

import "holdfast/client/internal/core/conn"

// How a client tries a node that probably refuses writes: while the client is at a read-only node, and when a node was
// read-only since any node has served. One request that needs a leader, the probe, shows what the node can do, and the
// other requests follow the answer. Without a probe, every client would send one futile request for each session, in
// each round. Local sessions that the current node serves wait for the answer too, because that node alone knows them
// (L1 local to one node).

// probe sends the probe to the candidate, unless a probe is pending.
func (s *Manager) probe(c *conn.Conn) {
	if r := c.Probe.Request; r != nil && r.Body.Wanted() {
		return
	}
	c.Probe.Request = nil
	for _, h := range s.sessions {
		if !h.token.Local {
			s.QueueResume(c, h)
			c.Probe.Request = h.attachment.resuming
			return
		}
	}
	s.probeOpen(c)
}

// probeOpen probes with an open if there is no global session: with a global open, or with a local open if all pending
// opens are local.
func (s *Manager) probeOpen(c *conn.Conn) {
	local := s.onlyLocalWanted()
	for call := range s.opens {
		if call.h == nil && call.on != c && call.Want.Local == local {
			c.Probe.Request = s.queueOpenOn(c, call)
			return
		}
	}
}

// queueResumes resumes the sessions on the candidate. If all are local, the answers say nothing about a leader, so an
// open that needs a leader goes along.
func (s *Manager) queueResumes(c *conn.Conn) {
	for _, h := range s.sessions {
		if !s.keepsHere(h) {
			s.QueueResume(c, h)
		}
	}
	if s.conns.Current() != nil && s.allLocal() && !s.onlyLocalWanted() {
		s.probeOpen(c)
	}
}

// keepsHere reports whether h would gain nothing at another node. That holds for a local session that the current node
// serves or should serve, if the missing leader is the only fault of that node.
func (s *Manager) keepsHere(h *Session) bool {
	c := s.conns.Current()
	if c == nil || !h.token.Local || !c.Leaderless() {
		return false
	}
	a := &h.attachment
	return a.on == c || a.on == nil && a.resuming != nil && s.conns.ReadOnly(c)
}

// probeDone resumes the other sessions after the node has deferred the probe: a node that accepts no writes would have
// refused the probe.
func (s *Manager) probeDone(c *conn.Conn) {
	if !c.Probe.Active {
		return
	}
	c.Probe.Active = false
	for _, h := range s.sessions {
		if !h.token.Local && h.attachment.resuming != c.Probe.Request {
			s.QueueResume(c, h)
		}
	}
}
