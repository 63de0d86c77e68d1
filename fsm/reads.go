package fsm

import (
	"context"
	"fmt"

	"holdfast/fsm/certificates"
	"holdfast/fsm/sessions"
	"holdfast/session"
)

// The methods in this file read the state. They are safe for concurrent use, also during Apply.

// Frozen returns a View of the present state.
func (s *State) Frozen() *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frozen()
}

// Tree returns the tree with its writers after the newest entry that reads show. It takes no lock.
func (s *State) Tree() *Tree { return s.tree.Load() }

// Session returns a session. It reports false when no session has that id.
func (s *State) Session(id session.ID) (found session.Session, ok bool) {
	s.read(func(t *tables) {
		var r *sessions.Row
		if r, ok = t.session(id); ok {
			found = r.Session()
		}
	})
	return found, ok
}

// Certificate returns the certificate of a session. It reports false when the session has not ended, or the state no
// longer keeps the certificate.
func (s *State) Certificate(id session.ID) (found session.Certificate, ok bool) {
	s.read(func(t *tables) {
		var c *certificates.Certificate
		if c, ok = t.certificate(id); ok {
			found = c.Session()
		}
	})
	return found, ok
}

// Credential returns the credential of id, a secret. It reports false while the cluster has no key.
func (s *State) Credential(id session.ID) (session.Credential, bool) {
	key, ok := s.key()
	if !ok {
		return session.Credential{}, false
	}
	return key.Credential(id), true
}

// Verify reports, in constant time, whether c is the credential of id, whether or not the session exists. It reports
// false while the cluster has no key.
func (s *State) Verify(id session.ID, c session.Credential) bool {
	key, ok := s.key()
	return ok && key.Verify(id, c)
}

func (s *State) key() (key session.Key, ok bool) {
	s.read(func(t *tables) { key = t.key })
	return key, key != session.Key{}
}

// Cluster returns the identity of the cluster, or 0 before the state has applied the founding.
func (s *State) Cluster() uint64 {
	key, ok := s.key()
	if !ok {
		return 0
	}
	return key.Cluster()
}

// Sessions returns the number of sessions.
func (s *State) Sessions() (n int) {
	s.read(func(t *tables) { n = t.sessions.Len() })
	return n
}

// Usage returns the use of everything that the capacity bounds.
func (s *State) Usage() (u session.Usage) {
	s.read(func(t *tables) { u = t.usage() })
	return u
}

// Requests returns the number of remembered request ids (O2 idempotent opens).
func (s *State) Requests() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables.requests.Len()
}

// PartOfRequests returns the highest index, at most upTo, for which a [session.ForgetRequests] forgets at most limit
// request ids, and in addition the other ids that the entry of the last id added. It returns upTo when at most limit
// ids are left.
func (s *State) PartOfRequests(upTo uint64, limit int) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables.requests.Part(upTo, limit)
}

// CheckCapacity returns a [session.LimitError] when c exceeds the capacity of the present state. It returns nil when c
// adds nothing. Callers save log entries for commands that the state would refuse; only applying the entry decides (O4
// state limits).
func (s *State) CheckCapacity(c session.Command) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables.checkCapacity(c)
}

// Attachment returns the highest attachment of the entries that the state has applied and all observers have processed:
// h of R2. It takes no lock.
func (s *State) Attachment() uint64 { return s.progress.attachment.Load() }

// UsedUp reports whether a node number has no free id: the node was removed (I7 ids are never reused, J3 removal). It
// takes no lock.
func (s *State) UsedUp(node session.Node) bool { return s.progress.usedUp.has(node) }

// CountUsedUp returns the number of used-up node numbers.
func (s *State) CountUsedUp() int { return s.progress.usedUp.count() }

// AppliedIndex returns the index of the newest command or configuration entry that the state has applied and all
// observers have processed, or of a newer restored snapshot. It takes no lock.
func (s *State) AppliedIndex() uint64 { return s.progress.index.Load() }

// ShownIndex returns the index of the newest entry that reads show. It is above AppliedIndex while observers process an
// entry. After a read, it is at least the index that the read showed (N4 seen index). It takes no lock.
func (s *State) ShownIndex() uint64 { return s.shownIndex.Load() }

// WaitApplied waits until AppliedIndex is at least index, or returns ctx's error. A waiting call costs little.
func (s *State) WaitApplied(ctx context.Context, index uint64) error {
	if err := s.progress.wait(ctx, index); err != nil {
		return fmt.Errorf("waiting for index %d to be applied: %w", index, err)
	}
	return nil
}

// Digest returns the digest of the state, and the index of the newest entry in it. Replicas at the same index have the
// same digest (I6 same state).
func (s *State) Digest() (index uint64, digest [16]byte) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index, s.digests[s.index%digestRing].digest
}

// DigestAt returns the digest of the state at index. It reports false when index is not among the newest 1,024, and
// when the state applied no command or configuration entry at index.
func (s *State) DigestAt(index uint64) ([16]byte, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at := s.digests[index%digestRing]
	if at.index != index {
		return [16]byte{}, false
	}
	return at.digest, true
}

// Deaths calls yield for the kept certificates, the newest first, from the one before the given number on, until yield
// returns false. Before 0 begins with the newest. Certificates are numbered from 1 in the order of their issue. oldest
// is the number of the oldest kept certificate, or of the next certificate if the state keeps none. The certificates
// are those of the moment of the call: later entries change nothing, and Deaths holds no lock while it calls yield.
func (s *State) Deaths(before uint64, yield func(number uint64, c *session.Certificate) bool) (oldest uint64) {
	var items []*certificates.Certificate
	s.read(func(t *tables) { items, oldest = t.certificates.Items, t.issued+1 })
	oldest -= uint64(len(items))
	at := len(items)
	if before != 0 {
		at = int(min(uint64(at), max(before, oldest)-oldest))
	}
	for at--; at >= 0; at-- {
		c := items[at].Session()
		if !yield(items[at].Number+1, &c) {
			break
		}
	}
	return oldest
}
