package wire

import (
	"fmt"
	"slices"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// columns has the sessions of any message that resumes many.
type columns interface {
	GetInstance() uint64
	GetIds() []uint64
	GetCredentials() []byte
	GetAttachments() []uint64
	GetAttempts() []uint64
}

var (
	_ columns = (*holdfastv1.ResumeSessions)(nil)
	_ columns = (*peerv1.ResumesRequest)(nil)
)

// ClientResumesFrom returns a client's request to resume many sessions: 1 to [session.MaxBatch], each once.
func ClientResumesFrom(p *holdfastv1.ResumeSessions) (*session.ResumesRequest, error) {
	r, err := resumesFrom(p)
	if err != nil {
		return nil, err
	}
	r.Seen = p.GetSeenIndex()
	ids := slices.Clone(p.GetIds())
	slices.Sort(ids)
	if len(slices.Compact(ids)) < len(r.Sessions) {
		return nil, &session.FieldError{Field: "ids", Limit: "must name each session once"}
	}
	return r, nil
}

// resumesFrom returns the sessions in the columns of p, which must have the same length.
func resumesFrom(p columns) (*session.ResumesRequest, error) {
	const size = len(session.Credential{})
	n := len(p.GetIds())
	field := func(name, limit string) (*session.ResumesRequest, error) {
		return nil, &session.FieldError{Field: name, Limit: limit}
	}
	switch {
	case n == 0 || n > session.MaxBatch:
		return field("ids", fmt.Sprintf("1 to %d", session.MaxBatch))
	case p.GetInstance() == 0:
		return field("instance", "64 random bits that are not all zero")
	case len(p.GetCredentials()) != n*size:
		return field("credentials", fmt.Sprintf("%d bytes for each of %d ids", size, n))
	case len(p.GetAttachments()) != n:
		return field("attachments", fmt.Sprintf("as many as ids, %d", n))
	case len(p.GetAttempts()) != n:
		return field("attempts", fmt.Sprintf("as many as ids, %d", n))
	}
	r := &session.ResumesRequest{Instance: p.GetInstance(), Sessions: make([]session.Resuming, n)}
	for i := range r.Sessions {
		one := &r.Sessions[i]
		one.ID, one.Attachment, one.Attempt = session.ID(p.GetIds()[i]), p.GetAttachments()[i], p.GetAttempts()[i]
		copy(one.Credential[:], p.GetCredentials()[i*size:])
		switch {
		case one.ID == 0:
			return field(fmt.Sprintf("ids[%d]", i), notZero)
		case one.Attachment == 0:
			return field(fmt.Sprintf("attachments[%d]", i), notZero)
		case one.Attempt == 0:
			return field(fmt.Sprintf("attempts[%d]", i), "1 or more")
		}
	}
	return r, nil
}

func resumesProto(r *session.ResumesRequest) *peerv1.ResumesRequest {
	n := len(r.Sessions)
	numbers := make([]uint64, 3*n)
	p := &peerv1.ResumesRequest{
		Instance: r.Instance, Ids: numbers[:n:n], Attachments: numbers[n : 2*n : 2*n], Attempts: numbers[2*n:],
		Credentials: make([]byte, 0, n*len(session.Credential{})),
	}
	for i := range r.Sessions {
		one := &r.Sessions[i]
		p.Ids[i], p.Attachments[i], p.Attempts[i] = uint64(one.ID), one.Attachment, one.Attempt
		p.Credentials = append(p.Credentials, one.Credential[:]...)
	}
	return p
}

// movedProto returns the outcome for each session. Successive refusals with the same error value become one on the
// wire.
func movedProto(moved []session.MoveResult) *peerv1.Moved {
	p := &peerv1.Moved{Attachments: make([]uint64, len(moved))}
	var former error
	for i := range moved {
		one := &moved[i]
		p.Attachments[i] = one.Attachment
		if one.Repeated {
			p.Repeated = append(p.Repeated, uint32(i))
		}
		if one.Err == nil {
			continue
		}
		p.Attachments[i] = 0
		if one.Err != former { //nolint:errorlint // the same value, not the same sentinel: their details may differ
			former = one.Err
			detail, message := replyError(one.Err)
			p.Refusals = append(p.Refusals, &peerv1.Refusal{Error: detail, Message: message})
		}
		last := p.Refusals[len(p.Refusals)-1]
		last.At = append(last.At, uint32(i))
	}
	return p
}

func movedFrom(p *peerv1.Moved) ([]session.MoveResult, error) {
	n := len(p.GetAttachments())
	if n == 0 || n > session.MaxBatch {
		return nil, &session.FieldError{Field: "moved.attachments", Limit: fmt.Sprintf("1 to %d", session.MaxBatch)}
	}
	moved := make([]session.MoveResult, n)
	for i, attachment := range p.GetAttachments() {
		moved[i].Attachment = attachment
	}
	if err := positions("moved.repeated", p.GetRepeated(), n); err != nil {
		return nil, err
	}
	for _, at := range p.GetRepeated() {
		moved[at].Repeated = true
	}
	for _, refusal := range p.GetRefusals() {
		if err := positions("moved.refusals.at", refusal.GetAt(), n); err != nil {
			return nil, err
		}
		why := FromDetail(refusal.GetError(), refusal.GetMessage())
		for _, at := range refusal.GetAt() {
			moved[at] = session.MoveResult{Err: why}
		}
	}
	for i := range moved {
		if moved[i].Attachment == 0 && moved[i].Err == nil {
			return nil, &session.FieldError{
				Field: fmt.Sprintf("moved.attachments[%d]", i), Limit: "not 0 without a refusal",
			}
		}
	}
	return moved, nil
}

// positions checks positions among n sessions.
func positions(field string, all []uint32, n int) error {
	for _, at := range all {
		if int64(at) >= int64(n) {
			return &session.FieldError{Field: field, Limit: fmt.Sprintf("positions below %d", n)}
		}
	}
	return nil
}
