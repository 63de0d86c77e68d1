package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"holdfast/session"
)

// A state's digest is kept up to date command by command: it is made of the sum, modulo 2^128, of the first 16 bytes of
// the SHA-256 of each thing in the state. Putting a thing in adds its hash, taking it out subtracts it, and the order
// does not matter. It does not show what becomes of memory between two commands: [State.Scrub] does. The bytes that are
// hashed are written here and not by a protobuf library, whose output may change between versions of a cluster's nodes.
// The digest finds replicas that have parted (I6); it is no defence against somebody who makes up colliding states.
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

// Each kind of thing begins with a byte of its own and, where its length varies, says how long its parts are, so that
// no two things have the same bytes.
const (
	sessionThing     = 'S'
	markThing        = 'M'
	requestThing     = 'R'
	certificateThing = 'C'
)

func (r *storedSession) canonical(b []byte) []byte {
	b = append(b[:0], sessionThing)
	b = be64(b, uint64(r.id), r.attachment, r.instance, r.attempt, r.openedIndex, r.openedMS)
	b = binary.BigEndian.AppendUint32(b, r.timeoutMS)
	b = append(b, byte(r.owner))
	if r.labels == nil {
		return append(b, 0)
	}
	b = append(b, byte(len(*r.labels)))
	for _, l := range *r.labels {
		b = append(append(b, byte(len(l.Key))), l.Key...)
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(l.Value))), l.Value...)
	}
	return b
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
	b = be64(b, uint64(c.id), c.number, c.term, c.index, c.credited, c.ms)
	b = binary.BigEndian.AppendUint32(b, c.age)
	return append(b, byte(c.owner), byte(c.cause))
}

func be64(b []byte, values ...uint64) []byte {
	for _, v := range values {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// digest mixes the sum with what there is one of.
func (t *tables) digest() [16]byte {
	b := append(make([]byte, 0, 128), "holdfast state 1"...)
	b = be64(b, t.sum.hi, t.sum.lo, t.attachment, t.issued)
	b = append(b, t.key[:]...)
	if t.capacity != (session.Capacity{}) { // what is without one has the digest that it always had
		b = be64(b, t.capacity.MaxSessions, t.capacity.MaxBytes)
	}
	sum := sha256.Sum256(b)
	return [16]byte(sum[:16])
}
