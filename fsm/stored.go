package fsm

import (
	"time"

	"holdfast/session"
)

// storedSession is what the tables keep of a session. They keep it packed (see [block]), so a storedSession is a copy.
type storedSession struct {
	id session.ID
	// attachment, instance and attempt are those of the newest move (M1). Before the first move attempt is 0, and
	// instance is the opener's, 0 if the open did not say it (X5).
	attachment uint64
	instance   uint64
	attempt    uint64
	// openedIndex is the index of the entry that opened the session, openedMS the clock of the node that received the
	// open.
	openedIndex uint64
	openedMS    uint64
	// labels is nil when the session has none, as most sessions.
	labels    *session.Labels
	timeoutMS uint32
	owner     session.Node
}

func (r *storedSession) session() session.Session {
	s := session.Session{
		ID:          r.id,
		Timeout:     unpackTimeout(r.timeoutMS),
		Owner:       r.owner,
		Attachment:  r.attachment,
		Instance:    r.instance,
		OpenedIndex: r.openedIndex,
		OpenedAt:    session.TimeOfMS(r.openedMS),
	}
	if r.labels != nil {
		s.Labels = *r.labels
	}
	return s
}

// cost returns the bytes of the capacity that the session takes (O4).
func (r *storedSession) cost() uint64 {
	if r.labels == nil {
		return session.SessionBytes
	}
	return session.SessionBytes + r.labels.Bytes()
}

// certificate is a session's certificate in the tables. It never changes.
type certificate struct {
	id session.ID
	// number is the certificate's position among all that were ever issued, from 0.
	number   uint64
	term     uint64
	index    uint64
	credited uint64        // milliseconds
	ms       uint64        // the leader's wall clock, since session.Epoch
	clock    time.Duration // the log clock
	age      uint32        // the last touch's, as packAge returns it
	owner    session.Node
	cause    session.Cause
	// left is what the session left in the tree; nil if all of it is 0.
	left  *session.Left
	story *session.Story
}

// cost returns the bytes that the certificate takes of what certificates may take (O4).
func (c *certificate) cost() uint64 { return session.CertificateBytes + c.story.Bytes() }

func (c *certificate) session() session.Certificate {
	certificate := session.Certificate{
		ID:           c.id,
		Cause:        c.cause,
		LastTouchAge: unpackAge(c.age),
		Owner:        c.owner,
		Term:         c.term,
		Index:        c.index,
		Credited:     unpackCredited(c.credited),
		EndedAt:      session.TimeOfMS(c.ms),
		Story:        *c.story,
	}
	if c.left != nil {
		certificate.Left = *c.left
	}
	return certificate
}

// request is a remembered request id, and the session that its open made (O2). It never changes.
type request struct {
	id      session.RequestID
	session session.ID
	index   uint64
}
