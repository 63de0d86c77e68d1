package core

// How the client ends calls that no node will serve: each node that has answered in a whole round denies the client
// (route.Denied). A session that is held and a watch that was in place go on: a token or a certificate that is replaced
// too late must not end them.

// deny answers the callers that wait for a connection.
func (m *moves) deny(err error) {
	for call := range m.opens {
		if call.h == nil { // an open that a node has answered goes on: its session lives
			m.giveUp(call, err)
		}
	}
	for _, h := range m.sessions {
		if call := h.joining; call != nil && call.Want.Timeout == 0 { // a resume
			m.giveUp(call, err)
		}
	}
	if m.forest != nil {
		m.denyTree(err)
	}
}

// denyTree answers the reads without a session, and the watches that no node has begun.
func (m *moves) denyTree(err error) {
	f := m.forest
	for call := range f.calls {
		if call.h == nil {
			m.done(call, Done{Err: err})
		}
	}
	f.reads, f.gone = nil, 0
	for _, e := range f.watches.sorted() {
		m.endNews(e, err)
		if !e.wanted() {
			f.watches.forget(e)
		}
	}
}
