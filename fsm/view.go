package fsm

import (
	"holdfast/fsm/sessions"
	"holdfast/session"
)

// View is the state at one index. It never changes and is safe for concurrent use. A kept View costs memory only for
// the parts of the state that have changed since.
type View struct {
	index, term uint64
	tables      tables
}

// Index returns the index of the newest entry in v, or 0 when v has none.
func (v *View) Index() uint64 { return v.index }

// Attachment returns the newest attachment.
func (v *View) Attachment() uint64 { return v.tables.attachment }

// Len returns the number of sessions.
func (v *View) Len() int { return v.tables.sessions.Len() }

// Session returns a session. It reports false when no session has that id.
func (v *View) Session(id session.ID) (session.Session, bool) {
	r, ok := v.tables.session(id)
	if !ok {
		return session.Session{}, false
	}
	return r.Session(), true
}

// Ascend calls yield for the sessions with ids above after, in the order of their ids, until yield returns false.
func (v *View) Ascend(after session.ID, yield func(session.Session) bool) {
	if after == ^session.ID(0) {
		return
	}
	v.tables.sessions.Ascend(after+1, func(r *sessions.Row) bool { return yield(r.Session()) })
}
