package session

import "time"

// ResumesRequest resumes many global sessions of one client process at once (M1 a resume is a move). It equals a
// [ResumeRequest] for each of them: each session is moved or refused on its own.
type ResumesRequest struct {
	// Instance and Seen are as in a ResumeRequest, the same for all.
	Instance, Seen uint64
	// Sessions are 1 to [MaxBatch].
	Sessions []Resuming
	// Trace is the place of all of them in a trace, nil without one.
	Trace *Trace
}

// Resuming names a session to resume. The fields are as in a [Token] of the log, and in a [ResumeRequest].
type Resuming struct {
	ID                  ID
	Credential          Credential
	Attachment, Attempt uint64
}

// Token returns the token.
func (r *Resuming) Token() Token {
	return Token{ID: r.ID, Credential: r.Credential, Attachment: r.Attachment}
}

// Resumed is the outcome for one session of a [ResumesRequest].
type Resumed struct {
	// Attachment is the session's new attachment, 0 when the session was refused.
	Attachment uint64
	// SafeFor is the promise (S3 length of a promise), counted from the moment the client sent the request; negative means
	// no promise.
	SafeFor time.Duration
	// Applied and Floor are as in a [Grant].
	Applied, Floor uint64
	// Err is the refusal.
	Err error
}
