package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"holdfast/session"
)

// setHash is the hash of a set of things: the sum, modulo 2^128, of the first 16 bytes of each thing's SHA-256. Adding
// a thing adds its hash, removing it subtracts the hash, and the order does not matter.
//
// A state's digest is made of a setHash that is kept up to date command by command. It does not show what happens to
// memory between two commands: [State.Scrub] does. This file writes the hashed bytes itself, because the output of a
// protobuf library may differ between the releases of a cluster's nodes. The digest finds replicas that differ (I6). It
// does not protect against an attacker who constructs colliding states.
type setHash struct{ hi, lo uint64 }

func hashOf(b []byte) setHash {
	sum := sha256.Sum256(b)
	return setHash{binary.BigEndian.Uint64(sum[0:]), binary.BigEndian.Uint64(sum[8:])}
}

func (h *setHash) add(b []byte) { h.plus(hashOf(b)) }

func (h *setHash) remove(b []byte) { h.minus(hashOf(b)) }

func (h *setHash) plus(o setHash) {
	var carry uint64
	h.lo, carry = bits.Add64(h.lo, o.lo, 0)
	h.hi, _ = bits.Add64(h.hi, o.hi, carry)
}

func (h *setHash) minus(o setHash) {
	var borrow uint64
	h.lo, borrow = bits.Sub64(h.lo, o.lo, 0)
	h.hi, _ = bits.Sub64(h.hi, o.hi, borrow)
}

// The canonical bytes of a thing begin with a byte for its kind, and hold the lengths of parts whose length varies. So
// no two things have the same bytes.
const (
	sessionThing     = 'S'
	markThing        = 'M'
	requestThing     = 'R'
	certificateThing = 'C'
	// spaceThing comes before the tree.
	spaceThing = 'T'
	// storyThing comes before the story of a certificate. It is no fate of a will, with which what was left begins.
	storyThing = 'A'
	// freezeThing comes before what a freeze has held back, keptThing before an extended session.
	freezeThing = 'F'
	keptThing   = 'K'
)

func (r *storedSession) canonical(b []byte) []byte {
	b = append(b[:0], sessionThing)
	b = be64(b, uint64(r.id), r.attachment, r.instance, r.attempt, r.openedIndex, r.openedMS)
	b = binary.BigEndian.AppendUint32(b, r.timeoutMS)
	b = append(b, byte(r.owner))
	if r.labels == nil {
		return append(b, 0)
	}
	return canonicalLabels(b, *r.labels)
}

func canonicalMark(b []byte, mark session.ID) []byte {
	return be64(append(b[:0], markThing), uint64(mark))
}

func (r *request) canonical(b []byte) []byte {
	b = append(append(b[:0], requestThing), r.id[:]...)
	return be64(b, uint64(r.session), r.index)
}

func (c *certificate) canonical(b []byte) []byte {
	b = append(b[:0], certificateThing)
	b = be64(b, uint64(c.id), c.number, c.term, c.index, c.credited, c.ms,
		uint64(c.clock.Milliseconds()))
	b = binary.BigEndian.AppendUint32(b, c.age)
	b = append(b, byte(c.owner), byte(c.cause))
	if left := c.left; left != nil {
		b = be64(append(b, byte(left.Will)), left.Applied, left.Floor, left.Instance, left.Ephemerals)
	}
	return canonicalStory(append(b, storyThing), c.story)
}

func canonicalStory(b []byte, s *session.Story) []byte {
	b = be64(b, uint64(s.Timeout.Milliseconds()), session.MS(s.OpenedAt), uint64(packSpan(s.Late)),
		uint64(packSpan(s.Credit)), uint64(packSpan(s.Silent)))
	for _, text := range []string{s.By, s.Why} {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
	}
	return canonicalLabels(b, s.Labels)
}

func canonicalLabels(b []byte, labels session.Labels) []byte {
	b = append(b, byte(len(labels)))
	for _, l := range labels {
		b = append(append(b, byte(len(l.Key))), l.Key...)
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(l.Value))), l.Value...)
	}
	return b
}

func be64(b []byte, values ...uint64) []byte {
	for _, v := range values {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// digest hashes the sum together with the fields that are no sets.
func (t *tables) digest() [16]byte {
	b := append(make([]byte, 0, 128), "holdfast state 1"...)
	b = be64(b, t.sum.hi, t.sum.lo, t.attachment, t.issued, t.forgotten)
	b = append(b, t.key[:]...)
	b = be64(b, t.capacity.MaxSessions, t.capacity.MaxBytes)
	b = t.shown.canonical(b)
	sum := sha256.Sum256(b)
	return [16]byte(sum[:16])
}
