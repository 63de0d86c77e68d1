// Package digest computes the digest by which replicas compare their states (I6 same state).
package digest

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"holdfast/session"
)

// Set is the hash of a set of elements: the sum, modulo 2^128, of the first 16 bytes of each element's SHA-256. Adding
// an element adds its hash and removing the element subtracts the hash, so the order does not matter and a change costs
// the same whatever the size of the set.
//
// The state updates its Set with each command. Damage of memory between two commands does not show in the Set: a scrub
// of the state finds it (C1 digest comparison). The packages write the hashed bytes themselves, because the output of a
// protobuf library may differ between the releases of a cluster's nodes. The Set does not protect against an attacker
// who constructs colliding states.
type Set struct{ hi, lo uint64 }

func hashOf(b []byte) Set {
	sum := sha256.Sum256(b)
	return Set{binary.BigEndian.Uint64(sum[0:]), binary.BigEndian.Uint64(sum[8:])}
}

// Add adds an element.
func (h *Set) Add(b []byte) { h.Plus(hashOf(b)) }

// Remove removes an element, which the set must have.
func (h *Set) Remove(b []byte) { h.Minus(hashOf(b)) }

// Plus adds the elements of o.
func (h *Set) Plus(o Set) {
	var carry uint64
	h.lo, carry = bits.Add64(h.lo, o.lo, 0)
	h.hi, _ = bits.Add64(h.hi, o.hi, carry)
}

// Minus removes the elements of o.
func (h *Set) Minus(o Set) {
	var borrow uint64
	h.lo, borrow = bits.Sub64(h.lo, o.lo, 0)
	h.hi, _ = bits.Sub64(h.hi, o.hi, borrow)
}

// Append appends the hash to b.
func (h *Set) Append(b []byte) []byte { return AppendUint64s(b, h.hi, h.lo) }

// Kinds of elements. An element's bytes begin with its kind and hold the lengths of the parts whose length varies, so
// no two elements have the same bytes. The tree and its writers have kinds of their own, which are lower-case.
const (
	KindSession     = 'S'
	KindMark        = 'M'
	KindRequest     = 'R'
	KindCertificate = 'C'
	KindExtension   = 'K'
	// KindTree and KindFreeze begin parts of the digest that are no elements of a Set.
	KindTree   = 'T'
	KindFreeze = 'F'
	// KindStory begins the story inside a certificate. It differs from every fate of a will, which begins the optional
	// part before the story.
	KindStory = 'A'
)

// AppendLabels appends labels to the bytes of an element.
func AppendLabels(b []byte, labels session.Labels) []byte {
	b = append(b, byte(len(labels)))
	for _, l := range labels {
		b = append(append(b, byte(len(l.Key))), l.Key...)
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(l.Value))), l.Value...)
	}
	return b
}

// AppendUint64s appends numbers to the bytes of an element.
func AppendUint64s(b []byte, values ...uint64) []byte {
	for _, v := range values {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}
