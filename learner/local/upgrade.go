package local

import (
	"context"
	"fmt"
	"time"

	"holdfast/session"
)

// upgrade is the upgrade of one local session, shared by all clients that request it while it is in flight (L8 one
// upgrade at a time).
type upgrade struct {
	request session.UpgradeRequest
	// begun is the moment of its beginning. Promises count from it until the upgrade is applied, because the log cannot
	// have known the session earlier.
	begun time.Duration
	// done is closed once the outcome is known, after err was set. A nil err says that the session is global, or was.
	done chan struct{}
	err  error
}

// finish sets the outcome and wakes all waiting clients.
func (u *upgrade) finish(err error) {
	u.err = err
	close(u.done)
}

// wait waits for the outcome. The error says why the session is not global, or that the outcome is unknown.
func (u *upgrade) wait(ctx context.Context) error {
	select {
	case <-u.done:
		return u.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, ctx.Err())
	}
}

// beginUpgrade touches the session of a token at now and begins its upgrade, or returns the upgrade in flight; begun
// distinguishes the two. It returns nil without an error when the session is not here. The session cannot expire from
// beginUpgrade until abortUpgrade or the end of the upgrade.
func (t *Table) beginUpgrade(token session.Token, now time.Duration, since uint64) (u *upgrade, begun bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := t.byToken(token)
	if s == nil {
		return nil, false, err
	}
	s.touch(now)
	if s.upgrade != nil {
		return s.upgrade, false, nil
	}
	s.upgrade = &upgrade{begun: now, done: make(chan struct{}), request: session.UpgradeRequest{
		ID: s.facts.ID, Spec: s.facts.Spec, MS: session.MS(s.facts.OpenedAt),
		Instance: s.facts.Instance, Attempt: s.attempt, Since: since,
	}}
	t.queue.Mark(s.item)
	return s.upgrade, true, nil
}

// abortUpgrade ends an upgrade that certainly changed nothing and never will. The session is local as before, with the
// deadline from touches meanwhile.
func (t *Table) abortUpgrade(u *upgrade, why error, now time.Duration) {
	t.mu.Lock()
	if s := t.serving[u.request.ID]; s != nil && s.upgrade == u {
		s.upgrade = nil
		t.queue.Return(s.item, max(s.item.Deadline(), now))
	}
	t.mu.Unlock()
	u.finish(why)
}

// upgradeOf returns the upgrade of a session in flight; nil for none.
func (t *Table) upgradeOf(id session.ID) *upgrade {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.serving[id]; s != nil {
		return s.upgrade
	}
	return nil
}

// upgrading returns the sessions with an upgrade in flight.
func (t *Table) upgrading() (all []session.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, s := range t.serving {
		if s.upgrade != nil {
			all = append(all, id)
		}
	}
	return all
}

// connOf returns the connection that serves a session; nil when the session is not here.
func (t *Table) connOf(id session.ID) Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.serving[id]; s != nil {
		return s.conn
	}
	return nil
}

// HandedOver is what a global session inherits from the former local session.
type HandedOver struct {
	// Attachment is the local attachment, Last its newest touch.
	Attachment uint64
	Last       time.Duration
	// Begun is the beginning of the upgrade, if an upgrade of this process made the session global.
	Begun     time.Duration
	Upgrading bool
}

// HandOver calls serve, which begins to serve a session elsewhere, and then drops the session; why is the refusal of
// later requests for it. Both happen under the table's lock, so that every touch finds the session in one of the two
// places: serve must return soon and must not use the table. HandOver returns false when conn does not serve the
// session.
func (t *Table) HandOver(id session.ID, conn Conn, why error, serve func(HandedOver)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.serving[id]
	if s == nil || s.conn != conn {
		return false
	}
	from := HandedOver{Attachment: s.facts.Attachment, Last: s.last}
	if s.upgrade != nil {
		from.Begun, from.Upgrading = s.upgrade.begun, true
	}
	serve(from)
	t.upgraded++
	s.over = why
	t.drop(s)
	return true
}

// remove drops a session that has moved or ended as a global one, and returns the connection that served it; nil when
// the session is not here. why is the refusal of later requests for the session.
func (t *Table) remove(id session.ID, why error) Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.serving[id]
	if s == nil {
		return nil
	}
	s.over = why
	t.drop(s)
	return s.conn
}
