package wire

import (
	"errors"
	"fmt"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// Within prefixes the field of a [session.FieldError] with the enclosing message.
func Within(message string, err error) error {
	if field, ok := errors.AsType[*session.FieldError](err); ok {
		return &session.FieldError{Field: message + "." + field.Field, Limit: field.Limit}
	}
	return err
}

// SeqOf checks the seq of a request, which must not be 0.
func SeqOf(seq uint64) error {
	if seq == 0 {
		return &session.FieldError{Field: "seq", Limit: notZero}
	}
	return nil
}

// BatchOf checks the number of requests in a batch.
func BatchOf(n int) error {
	if n == 0 || n > session.MaxBatch {
		return &session.FieldError{Field: "batch.requests", Limit: fmt.Sprintf("1 to %d requests", session.MaxBatch)}
	}
	return nil
}

// IDFrom returns the id of a session, which must not be 0.
func IDFrom(field string, id uint64) (session.ID, error) {
	if id == 0 {
		return 0, &session.FieldError{Field: field, Limit: notZero}
	}
	return session.ID(id), nil
}

// idsFrom returns a list of at most limit ids, none of them 0.
func idsFrom(field string, ids []uint64, limit int) ([]session.ID, error) {
	if len(ids) > limit {
		return nil, &session.FieldError{Field: field, Limit: fmt.Sprintf("at most %d", limit)}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	out := make([]session.ID, len(ids))
	for i, id := range ids {
		if id == 0 {
			return nil, &session.FieldError{Field: field, Limit: "must hold no 0"}
		}
		out[i] = session.ID(id)
	}
	return out, nil
}

// opening is any message with the fields of an open.
type opening interface {
	specified
	GetRequestId() []byte
	GetLocal() bool
	GetInstance() uint64
}

// OpenFrom returns the open that arrived at now by the wall clock, from which its id is made (O1 ids from the log).
func OpenFrom(o opening, now time.Time) (session.OpenRequest, error) {
	spec, err := specFrom("", o)
	if err != nil {
		return session.OpenRequest{}, err
	}
	request, err := requestIDFrom("request_id", o.GetRequestId())
	if err != nil {
		return session.OpenRequest{}, err
	}
	return session.OpenRequest{
		RequestID: request, Spec: spec, MS: session.MS(now),
		Local: o.GetLocal(), Instance: o.GetInstance(),
	}, nil
}

func requestIDFrom(field string, b []byte) (session.RequestID, error) {
	if len(b) != len(session.RequestID{}) {
		return session.RequestID{}, &session.FieldError{Field: field, Limit: "16 bytes"}
	}
	return session.RequestID(b), nil
}

// resuming is any message with the fields of a resume.
type resuming interface {
	GetToken() *holdfastv1.Token
	GetInstance() uint64
	GetAttempt() uint64
}

func resumeFrom(r resuming) (session.ResumeRequest, error) {
	token, err := TokenFrom(r.GetToken())
	if err != nil {
		return session.ResumeRequest{}, err
	}
	if r.GetInstance() == 0 {
		return session.ResumeRequest{},
			&session.FieldError{Field: "instance", Limit: "64 random bits that are not all zero"}
	}
	if r.GetAttempt() == 0 {
		return session.ResumeRequest{}, &session.FieldError{Field: "attempt", Limit: "1 or more"}
	}
	return session.ResumeRequest{Token: token, Instance: r.GetInstance(), Attempt: r.GetAttempt()}, nil
}

// seeing is a client's message with the fields of a resume. Every seen index is valid: the node waits a bounded time
// for it (N4 seen index).
type seeing interface {
	resuming
	GetSeenIndex() uint64
}

// ClientResumeFrom returns a client's resume.
func ClientResumeFrom(r seeing) (session.ResumeRequest, error) {
	resume, err := resumeFrom(r)
	resume.Seen = r.GetSeenIndex()
	return resume, err
}

// TouchFrom returns the ids of a touch; an empty list means all sessions of the connection.
func TouchFrom(t *holdfastv1.Touch) ([]session.ID, error) {
	return idsFrom("ids", t.GetIds(), session.MaxTouchBatch)
}

// TokensFrom returns the tokens of a touch.
func TokensFrom(tokens []*holdfastv1.Token) ([]session.Token, error) {
	if len(tokens) > session.MaxTouchBatch {
		return nil, &session.FieldError{Field: "tokens", Limit: fmt.Sprintf("at most %d", session.MaxTouchBatch)}
	}
	out := make([]session.Token, len(tokens))
	for i, p := range tokens {
		t, err := tokenFrom(fmt.Sprintf("tokens[%d]", i), p)
		if err != nil {
			return nil, err
		}
		out[i] = t
	}
	return out, nil
}
