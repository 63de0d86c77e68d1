package core

import (
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

func (w *walk) grant(id session.ID, local bool) (session.Session, *holdfastv1.Token, time.Duration) {
	s := session.Session{
		ID: id, Spec: session.Spec{Timeout: 10 * time.Second}, Owner: 1, Attachment: uint64(1 + w.random.IntN(1000)),
		Local:       local,
		OpenedIndex: 1, OpenedAt: session.Epoch(),
	}
	return s, wire.TokenProto(session.Token{ID: id, Attachment: s.Attachment, Local: local}), w.safe()
}

func (w *walk) safe() time.Duration {
	if !w.kind && w.chance(5) {
		return -1
	}
	return time.Duration(w.random.IntN(10000)) * time.Millisecond
}

func (w *walk) refusal() error {
	all := []error{
		&session.ExpiredError{ID: 1}, &session.ExpiredError{ID: 1, LocalTo: 2}, session.ErrBadCredential,
		&session.MovedError{Instance: 78, Attachment: 3}, &session.MovedError{Instance: 77, Attachment: 3},
		session.ErrClosing, session.ErrLagging, session.ErrLagging, session.ErrNoLeader, session.ErrReadOnly,
		session.ErrReadOnly, session.ErrStopping, session.ErrOutcomeUnknown, &session.LimitError{Name: "sessions"},
		&session.LimitError{Name: "arrivals", RetryAfter: time.Second}, &session.FieldError{Field: "x"},
		&session.NotLeaderError{Address: "n2:1"},
	}
	return all[w.random.IntN(len(all))]
}
