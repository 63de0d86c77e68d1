package session

import (
	"sync"
	"time"
)

// TakeOvers remembers which sessions a client process has taken over from another one, each for half of its timeout (M7
// no take-over from a living holder). Moments are those of one clock of the caller. The zero value is ready. Safe for
// concurrent use.
type TakeOvers struct {
	mu  sync.Mutex
	all map[ID]*takeOver // guarded by mu
	// enough is the number of take-overs at which past ones are dropped. guarded by mu
	enough int
}

// takeOver is the newest take-over of a session.
type takeOver struct {
	// attachment is the present holder's. The holder took the session over at, and keeps it until.
	attachment uint64
	at, until  time.Duration
	// contested says that another client has requested the session since.
	contested bool
}

// fewTakeOvers is the number of take-overs below which none is dropped for its age.
const fewTakeOvers = 64

// Note records a change of the state, at now.
func (t *TakeOvers) Note(c *Change, now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.all[c.Session.ID]
	switch {
	case c.Kind == Ended:
		delete(t.all, c.Session.ID)
	case c.Kind != Moved:
	case c.Former != c.Session.Instance && c.Former != 0:
		t.makeSpace(now)
		t.all[c.Session.ID] = &takeOver{
			attachment: c.Session.Attachment, at: now, until: now + c.Session.Timeout/2,
		}
	case one != nil: // the holder itself has gone to another node
		one.attachment = c.Session.Attachment
	}
}

// makeSpace prepares for one more take-over: it drops past take-overs if there are many. Called with mu held.
func (t *TakeOvers) makeSpace(now time.Duration) {
	if t.all == nil {
		t.all = make(map[ID]*takeOver)
	}
	if len(t.all) < max(t.enough, fewTakeOvers) {
		return
	}
	for id, one := range t.all {
		if one.until <= now {
			delete(t.all, id)
		}
	}
	t.enough = 2 * len(t.all)
}

// Recent returns when the attachment's holder took the session over, if that was less than half a timeout before now.
// first says that no client has requested it before.
func (t *TakeOvers) Recent(id ID, attachment uint64, now time.Duration) (at time.Duration, first, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.all[id]
	if one == nil || one.attachment != attachment || one.until <= now {
		return 0, false, false
	}
	first, one.contested = !one.contested, true
	return one.at, first, true
}

// Release records that the connections of attachments' holders have ended.
func (t *TakeOvers) Release(all ...Release) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range all {
		if one := t.all[r.ID]; one != nil && one.attachment == r.Attachment {
			delete(t.all, r.ID)
		}
	}
}
