package session

// MoveSessions moves sessions of one client process to one owner (M1). It does what a [MoveSession] of each of its
// sessions would do, in their order, and each is moved or refused by itself.
type MoveSessions struct {
	NewOwner Node
	Instance uint64
	// Sessions are 1 to [MaxBatch].
	Sessions []Moving
}

// Moving names a session to move. Attempt and Named are those of a [MoveSession]; Named is never 0, and an attachment
// of the log.
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

// MoveResult is what one move of several did. The session's other fields are those of the state.
type MoveResult struct {
	// Attachment is the session's new attachment, or after a repeat its present one; 0 when the move was refused.
	Attachment uint64
	// Repeated says that an earlier entry had done the move, see [Result].
	Repeated bool
	// Err is the state machine's refusal, an [ExpiredError] or a [MovedError].
	Err error
}
