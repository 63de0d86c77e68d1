package fsm

import (
	"fmt"
	"time"

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// upgrade makes a local session global (L7). Who repeats it, because he does not know what became of it, gets the
// session that is there, or learns that it has ended: never a second one.
func (s *step) upgrade(c session.UpgradeSession) (session.Session, error) {
	if r, ok := s.session(c.ID); ok {
		return r.session(), nil
	}
	if _, ended := s.certificate(c.ID); ended || s.forgot(c.Since) {
		return session.Session{}, s.expired(c.ID)
	}
	if mark := s.marks[c.ID.Node()]; c.ID > mark {
		return session.Session{},
			outOfRange("session_id", fmt.Sprintf("an id that its node has claimed, at most %v", mark))
	}
	if err := s.room(c); err != nil {
		return session.Session{}, err
	}
	s.attachment++
	r := &record{
		id: c.ID, attachment: s.attachment, owner: c.ID.Node(), timeoutMS: uint32(c.Timeout.Milliseconds()),
		instance: c.Instance, attempt: c.Attempt, openedIndex: s.index, openedMS: c.MS,
	}
	if labels := c.Labels; len(labels) > 0 {
		r.labels = &labels
	}
	s.putSession(r)
	return s.changed(session.Opened, r), nil
}

// forgot reports whether a certificate of an entry after an index may have been dropped.
func (t *tables) forgot(since uint64) bool {
	kept := t.certificates.items
	return t.issued > uint64(len(kept)) && (len(kept) == 0 || kept[0].index > since)
}

func checkUpgrade(c session.UpgradeSession) error {
	switch {
	case !c.ID.Node().Valid():
		return outOfRange("session_id", "an id of a node, 1 to 254")
	case c.MS > session.MaxMS:
		return outOfRange("ms", msLimit)
	case c.Timeout <= 0 || c.Timeout > session.MaxTimeout || c.Timeout%time.Millisecond != 0:
		return outOfRange("timeout", timeoutLimit)
	}
	return c.Labels.Check()
}

func upgradeProto(c session.UpgradeSession) *logv1.UpgradeSession {
	return &logv1.UpgradeSession{
		Id: uint64(c.ID), TimeoutMs: uint32(c.Timeout.Milliseconds()), Labels: labelsProto(c.Labels), Ms: c.MS,
		Instance: c.Instance, Attempt: c.Attempt, SinceIndex: c.Since,
	}
}

func upgradeFrom(m *logv1.UpgradeSession) (session.Command, error) {
	if err := known(m); err != nil {
		return nil, err
	}
	labels, err := labelsFrom(m.GetLabels())
	if err != nil {
		return nil, err
	}
	return session.UpgradeSession{
		ID: session.ID(m.GetId()), Timeout: unpackTimeout(m.GetTimeoutMs()), Labels: labels, MS: m.GetMs(),
		Instance: m.GetInstance(), Attempt: m.GetAttempt(), Since: m.GetSinceIndex(),
	}, nil
}
