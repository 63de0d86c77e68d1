package leader

import (
	"errors"
	"sync"

	"holdfast/session"
)

// unnamed are the moves that this leader makes one at a time for each session, because an entry may have to name no
// attachment. Safe for concurrent use.
type unnamed struct {
	mu     sync.Mutex
	moving map[session.ID]underWay // guarded by mu
}

// underWay is a move that has begun. The log may yet decide one whose outcome is unknown.
type underWay struct {
	attachment uint64 // the session's when the move began
	unknown    bool
}

// begin reports whether no other move of the session is under way. Then the caller calls end once.
func (u *unnamed) begin(id session.ID, view State) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	now, ok := view.Session(id)
	if former, busy := u.moving[id]; busy && ok && (!former.unknown || now.Attachment == former.attachment) {
		return false
	}
	if u.moving == nil {
		u.moving = make(map[session.ID]underWay)
	}
	u.moving[id] = underWay{attachment: now.Attachment}
	return true
}

// end takes in what came of a move. While the outcome is unknown, the move stays under way until the log decides or the
// term ends.
func (u *unnamed) end(id session.ID, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if errors.Is(err, session.ErrOutcomeUnknown) {
		u.moving[id] = underWay{u.moving[id].attachment, true}
		return
	}
	delete(u.moving, id)
}

func (u *unnamed) none() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.moving) == 0
}

// allNamed reports whether every move that is under way, or is proposed from now on, names an attachment. The order of
// the looks matters: a move that names none has begun before the log said that every member reads a named one.
func (q *requests) allNamed() bool { return q.cfg.Written() >= 1 && q.unnamed.none() }

// submitMove proposes a move, and calls done as [Log.Submit] does. Members of former releases stop at an entry that
// names an attachment, and a member that this leader has not heard may be one. Until it knows better, the entry names
// none, and the state machine takes that for the present attachment. So the leader compares, with a state that no move
// under way changes (M1).
func (q *requests) submitMove(c session.MoveSession, done func(session.Result, error)) {
	if q.allNamed() {
		q.log.Submit(c, done)
		return
	}
	if !q.unnamed.begin(c.ID, q.view) {
		done(session.Result{}, &session.LimitError{
			Name: "moves_per_session", Limit: "1 at a time, until every node reads entries of a newer form",
			RetryAfter: session.BusyRetryAfter,
		})
		return
	}
	if err := q.present(&c); err != nil {
		q.unnamed.end(c.ID, err)
		done(session.Result{}, err)
		return
	}
	if q.logVersion() < 1 {
		c.Named, c.NamedLocal = 0, false
	}
	q.log.Submit(c, func(result session.Result, err error) {
		q.unnamed.end(c.ID, err)
		done(result, err)
	})
}

// present returns why the state machine would refuse a move of a session as this node shows it, as far as the named
// attachment goes.
func (q *requests) present(c *session.MoveSession) error {
	one, ok := q.view.Session(c.ID)
	switch {
	case !ok, c.Instance == one.Instance, one.Instance == 0: // the log decides
		return nil
	case c.NamedLocal, c.Named < one.Attachment:
		return session.MovedTo(one)
	case c.Named > one.Attachment: // a leader that does not know yet that it was deposed
		return session.ErrLagging
	default:
		return nil
	}
}
