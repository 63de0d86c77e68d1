package client

import (
	"context"
	"fmt"
)

// Upgrade makes a local session global. The session keeps its id and timeout. From then on it survives the death of its
// node, and moves to other nodes like every global session (L7 upgrade). When Upgrade returns nil, [Session.Token],
// [Session.Local] and the promise are those of the global session; rule L5 says how long a former token stays valid.
// Upgrade changes nothing about a global session.
//
// Upgrade repeats the request until ctx ends. The repeats are safe: the cluster upgrades a session only once. When ctx
// ends, the error wraps its cause and the last obstacle, and [session.ErrOutcomeUnknown] if the session may be or
// become global all the same. With [FailInFlight], Upgrade also returns [session.ErrOutcomeUnknown] when the answer can
// no longer arrive. [Session.Local] shows the outcome as soon as the client knows it, and calling Upgrade again is
// safe.
//
// The session lives on after an error, unless it has ended: then the error is that of [Session.Err]. The error is a
// [session.FieldError] when the cluster's setting local_session_upgrade is off.
func (s *Session) Upgrade(ctx context.Context) error {
	if err := s.loop.upgrade(ctx, s); err != nil {
		return fmt.Errorf("upgrade session %s: %w", s.id, err)
	}
	return nil
}

// Local reports whether only one node knows the session, as far as this client knows: see [SessionOptions].Local.
func (s *Session) Local() bool { return s.Token().Local }
