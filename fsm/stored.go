package fsm

import (
	"bytes"
	"cmp"

	"github.com/tidwall/btree"

	"holdfast/session"
)

// record is a session as it is kept: 64 bytes, a size class of Go's allocator, of which a cluster may hold a million.
// It is never changed once it is in the tree, so that views may share it; a move puts another in its place.
type storedSession struct {
	id session.ID
	// attachment, instance and attempt are those of the newest move; instance and attempt are 0 before the first (M1).
	attachment uint64
	instance   uint64
	attempt    uint64
	// openedIndex and openedMS say when the session was opened: by the log, and by the clock of the node that took it.
	openedIndex uint64
	openedMS    uint64
	// labels is nil when there are none, as most sessions have it.
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

// cost is what a session takes of the capacity.
func (r *storedSession) cost() uint64 {
	if r.labels == nil {
		return session.SessionBytes
	}
	return session.SessionBytes + r.labels.Bytes()
}

// certificate is a session's end as it is kept. It is never changed.
type certificate struct {
	id session.ID
	// number is its position among all certificates ever issued, from 0.
	number   uint64
	term     uint64
	index    uint64
	credited uint64 // milliseconds
	ms       uint64 // the leader's wall clock, since session.Epoch
	age      uint32 // of packAge
	owner    session.Node
	cause    session.Cause
}

func (c *certificate) session() session.Certificate {
	return session.Certificate{
		ID:           c.id,
		Cause:        c.cause,
		LastTouchAge: unpackAge(c.age),
		Owner:        c.owner,
		Term:         c.term,
		Index:        c.index,
		Credited:     unpackCredited(c.credited),
		EndedAt:      session.TimeOfMS(c.ms),
	}
}

// request is a request id that is remembered, and what it made (O2). It is never changed.
type request struct {
	id      session.RequestID
	session session.ID
	index   uint64
}

func newTree[T any](less func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

func byCertificateID(a, b *certificate) bool { return cmp.Less(a.id, b.id) }

func byRequestID(a, b *request) bool { return bytes.Compare(a.id[:], b.id[:]) < 0 }
