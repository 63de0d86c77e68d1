package session

import "time"

// ResumesRequest resumes many global sessions of one client process at once (M1). It is a [ResumeRequest] of each of
// them: each is moved or refused by itself.
type ResumesRequest struct {
	// Instance and Seen are those of a ResumeRequest, the same for all.
	Instance, Seen uint64
	// Sessions are 1 to [MaxBatch].
	Sessions []Resuming
	// Trace is the place of all of them in a trace, nil if they are in none.
	Trace *Trace
}

// Resuming names a session to resume. The fields are those of a [Token] of the log, and of a [ResumeRequest].
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
	// SafeFor is the promise (S3), counted from the moment the client sent the request; negative means no promise.
	SafeFor time.Duration
	// Applied and Floor are those of a [Grant].
	Applied, Floor uint64
	// Err is the refusal.
	Err error
}
