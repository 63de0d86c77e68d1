package session

// MoveSessions moves sessions of one client process to one owner (M1 a resume is a move). It equals one [MoveSession]
// for each session, in order. The outcome of each session is independent.
type MoveSessions struct {
	NewOwner Node
	Instance uint64
	// Sessions are 1 to [MaxBatch].
	Sessions []Moving
}

// Moving names a session to move. Attempt and Named are as in a [MoveSession]; Named is never 0, and an attachment of
// the log.
type Moving struct {
	ID             ID
	Attempt, Named uint64
}

// Each returns the MoveSession of the i-th session.
func (c MoveSessions) Each(i int) MoveSession {
	one := c.Sessions[i]
	return MoveSession{
		ID: one.ID, NewOwner: c.NewOwner, Instance: c.Instance, Attempt: one.Attempt, Named: one.Named,
	}
}

// MoveResult is the outcome of one move of several. The session's other fields are in the state.
type MoveResult struct {
	// Attachment is the session's new attachment, or after a repeat its present one; 0 when the move was refused.
	Attachment uint64
	// Repeated says that an earlier entry had already moved the session, see [Result].
	Repeated bool
	// Err is the state machine's refusal, an [ExpiredError] or a [MovedError].
	Err error
}
