package fsm

import "holdfast/session"

// View is the state as it was at one index. It never changes and is safe for concurrent use. While it is kept, it costs
// memory only for the parts of the state that have changed since.
type View struct {
	index, term uint64
	tables      tables
}

// Index returns the index of the newest entry that v shows, 0 when v shows none.
func (v *View) Index() uint64 { return v.index }

// Attachment returns the highest attachment that was given out.
func (v *View) Attachment() uint64 { return v.tables.attachment }

// Len returns the number of sessions.
func (v *View) Len() int { return v.tables.sessions.size() }

// Session returns a session, false when there is none with that id.
func (v *View) Session(id session.ID) (session.Session, bool) {
	r, ok := v.tables.session(id)
	if !ok {
		return session.Session{}, false
	}
	return r.session(), true
}

// Ascend calls yield for the sessions with ids above after, in the order of their ids, until yield returns false.
func (v *View) Ascend(after session.ID, yield func(session.Session) bool) {
	if after == ^session.ID(0) {
		return
	}
	v.tables.sessions.ascend(after+1, func(r *storedSession) bool { return yield(r.session()) })
}
