package fsm

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"holdfast/fsm/digest"
	"holdfast/session"
)

// extension protects a session from expiry while the log clock is below until (Y4 extension).
type extension struct {
	id    session.ID
	until time.Duration
}

// extensions are the extended sessions by id, at most [session.MaxExtended]. A passed extension stays until an operator
// extends another session, or its session ends.
type extensions struct {
	all []extension
	// shared says that a frozen copy has the same slice.
	shared bool
}

// find returns the position of a session, and reports whether the session has an extension.
func (k *extensions) find(id session.ID) (int, bool) {
	return slices.BinarySearchFunc(k.all, id, func(one extension, id session.ID) int { return cmp.Compare(one.id, id) })
}

// until returns the end of a session's extension, or 0 for a session without one.
func (k *extensions) until(id session.ID) time.Duration {
	if i, ok := k.find(id); ok {
		return k.all[i].until
	}
	return 0
}

// freeze returns a copy that never changes.
func (k *extensions) freeze() extensions {
	k.shared = true
	return *k
}

// own copies a shared slice before a change.
func (k *extensions) own() {
	if k.shared {
		k.all, k.shared = slices.Clone(k.all), false
	}
}

// Only the three methods below change extensions. Each keeps the digest up to date.

func (s *treeState) extend(one extension) {
	s.removeExtension(one.id)
	i, _ := s.extensions.find(one.id)
	s.extensions.own()
	s.extensions.all = slices.Insert(s.extensions.all, i, one)
	s.Add(one.canonical())
}

func (s *treeState) removeExtension(id session.ID) {
	if i, ok := s.extensions.find(id); ok {
		s.Remove(s.extensions.all[i].canonical())
		s.extensions.own()
		s.extensions.all = slices.Delete(s.extensions.all, i, i+1)
	}
}

func (s *treeState) removePassedExtensions() {
	s.extensions.own()
	s.extensions.all = slices.DeleteFunc(s.extensions.all, func(one extension) bool {
		if one.until > s.time.Log {
			return false
		}
		s.Remove(one.canonical())
		return true
	})
}

func (k extension) canonical() []byte {
	return digest.AppendUint64s([]byte{digest.KindExtension}, uint64(k.id), uint64(k.until.Milliseconds()))
}

// ExtendedUntil returns the moment of the log clock until which a session is extended, or 0 for a session without an
// extension (Y4).
func (t *Tree) ExtendedUntil(id session.ID) time.Duration { return t.extensions.until(id) }

// Extended returns the number of sessions that are extended at the present moment of the log clock.
func (t *Tree) Extended() (n int) {
	for _, one := range t.extensions.all {
		if one.until > t.Clock {
			n++
		}
	}
	return n
}

// canonicalTime appends the digest's bytes for freezes. It appends nothing before the first freeze.
func canonicalTime(b []byte, t session.LogTime) []byte {
	if t.Held == 0 && t.Freeze == nil {
		return b
	}
	b = digest.AppendUint64s(append(b, digest.KindFreeze), uint64(t.Held.Milliseconds()))
	if f := t.Freeze; f != nil {
		b = digest.AppendUint64s(b, uint64(f.Until.Milliseconds()), session.MS(f.Since))
		for _, text := range []string{f.By, f.Why} {
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
		}
	}
	return b
}
