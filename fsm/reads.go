package fsm

import (
	"context"
	"fmt"

	"holdfast/session"
)

// The methods in this file read the state. They are safe for concurrent use, also beside Apply.

// Frozen returns a View of the state as it is now.
func (s *State) Frozen() *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frozen()
}

// Tree returns the tree with its writers as of the newest entry that reads show. It takes no lock.
func (s *State) Tree() *Tree { return s.tree.Load() }

// Session returns a session, false when there is none with that id.
func (s *State) Session(id session.ID) (found session.Session, ok bool) {
	s.read(func(t *tables) {
		var r *storedSession
		if r, ok = t.session(id); ok {
			found = r.session()
		}
	})
	return found, ok
}

// Certificate returns the certificate of a session, false when the session has not ended or its certificate is no
// longer kept.
func (s *State) Certificate(id session.ID) (found session.Certificate, ok bool) {
	s.read(func(t *tables) {
		var c *certificate
		if c, ok = t.certificate(id); ok {
			found = c.session()
		}
	})
	return found, ok
}

// Credential returns the credential of id, a secret; false while the cluster has no key.
func (s *State) Credential(id session.ID) (session.Credential, bool) {
	key, ok := s.key()
	if !ok {
		return session.Credential{}, false
	}
	return key.Credential(id), true
}

// Verify reports, in constant time, whether c is the credential of id. It is false while the cluster has no key, and
// does not depend on whether the session exists.
func (s *State) Verify(id session.ID, c session.Credential) bool {
	key, ok := s.key()
	return ok && key.Verify(id, c)
}

func (s *State) key() (key session.Key, ok bool) {
	s.read(func(t *tables) { key = t.key })
	return key, key != session.Key{}
}

// Cluster returns the identity of the cluster, 0 until its founding was applied.
func (s *State) Cluster() uint64 {
	key, ok := s.key()
	if !ok {
		return 0
	}
	return key.Cluster()
}

// Sessions returns the number of sessions.
func (s *State) Sessions() (n int) {
	s.read(func(t *tables) { n = t.sessions.size() })
	return n
}

// Usage returns what the state holds of the things that its capacity bounds.
func (s *State) Usage() (u session.Usage) {
	s.read(func(t *tables) { u = t.usage() })
	return u
}

// Requests returns the number of request ids that the state remembers (O2).
func (s *State) Requests() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables.requests.size()
}

// PartOfRequests returns the highest index, at most upTo, such that a [session.ForgetRequests] up to it forgets at most
// so many request ids, and those that the same entry added as the last of them. It is upTo when there are no more.
func (s *State) PartOfRequests(upTo uint64, most int) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables.requests.part(upTo, most)
}

// Room returns nil when the present state has room for c, or c adds nothing; otherwise a [session.LimitError]. It
// spares the log entries of commands that would be refused. Only applying the entry decides (O4).
func (s *State) Room(c session.Command) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables.room(c)
}

// Attachment returns the highest attachment of the entries that have been applied and told to all observers: h of R2.
// It takes no lock.
func (s *State) Attachment() uint64 { return s.progress.attachment.Load() }

// UsedUp reports whether no session can get an id of a node number any more: the node was removed (I7, J3). It takes no
// lock.
func (s *State) UsedUp(node session.Node) bool { return s.progress.usedUp.has(node) }

// CountUsedUp returns how many node numbers are used up.
func (s *State) CountUsedUp() int { return s.progress.usedUp.count() }

// AppliedIndex returns the index of the newest command or configuration entry that has been applied and told to all
// observers, or of a newer restored snapshot. It takes no lock.
func (s *State) AppliedIndex() uint64 { return s.progress.index.Load() }

// ShownIndex returns the index of the newest entry that reads of the state show. It is above AppliedIndex while
// observers are being told of an entry. Called after a read, it is not below the index that the read showed (N4). It
// takes no lock.
func (s *State) ShownIndex() uint64 { return s.shown.Load() }

// WaitApplied waits until AppliedIndex is at least index. The error is ctx's. A waiting call costs little.
func (s *State) WaitApplied(ctx context.Context, index uint64) error {
	if err := s.progress.wait(ctx, index); err != nil {
		return fmt.Errorf("waiting for index %d to be applied: %w", index, err)
	}
	return nil
}

// Digest returns the digest of the state, and the index of the newest entry in it. Replicas at the same index have the
// same digest (I6).
func (s *State) Digest() (index uint64, digest [16]byte) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index, s.digests[s.index%digestRing].digest
}

// DigestAt returns the digest that the state had at index. It is false when index is not among the newest 1,024, and
// when no command or configuration entry was applied there.
func (s *State) DigestAt(index uint64) ([16]byte, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at := s.digests[index%digestRing]
	if at.index != index {
		return [16]byte{}, false
	}
	return at.digest, true
}
