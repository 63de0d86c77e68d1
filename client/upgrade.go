package client

import (
	"context"
	"fmt"
)

// Upgrade makes a local session global: it keeps its id and timeout, lives through its node's death from then on, and
// is moved to other nodes like any other (L7). When Upgrade returns nil, [Session.Token], [Session.Local] and the
// promise are those of the global session; for a token from before see L5. Of a global session it changes nothing.
//
// It is repeated until ctx ends, which is safe: it is done once, however often it is asked for. When ctx ends the error
// wraps its cause and the last thing that stood in the way: [session.ErrOutcomeUnknown] if the session may have become
// global all the same, or may yet. A client that was told to [FailInFlight] returns that too, when the answer cannot
// come any more. Then [Session.Local] tells as soon as it is known, and calling Upgrade again is safe. The session
// lives on after an error, unless it has ended: then the error is that of [Session.Err]. A [session.FieldError] when
// the cluster's setting local_session_upgrade is off.
func (s *Session) Upgrade(ctx context.Context) error {
	if err := s.loop.upgrade(ctx, s); err != nil {
		return fmt.Errorf("upgrade session %s: %w", s.id, err)
	}
	return nil
}

// Local reports whether one node alone knows the session, as far as this client has heard: see [SessionOptions].
func (s *Session) Local() bool { return s.Token().Local }
