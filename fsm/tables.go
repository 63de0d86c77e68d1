package fsm

import (
	"crypto/sha256"
	"time"

	"holdfast/fsm/certificates"
	"holdfast/fsm/digest"
	"holdfast/fsm/requests"
	"holdfast/fsm/sessions"
	"holdfast/session"
)

// The state keeps the newest certificates: at most certificateLimit, none for longer than certificateAge by the log
// clock, and no more than [session.Capacity.CertificateBytes] holds. Without the certificate, a client learns only that
// its session has ended. One entry of the log drops at most certificatesDropped certificates, which is more than it
// ends sessions (E3 ordered closes). So applying an entry stays short, and the following entries drop the rest.
//
// Certificates may therefore exceed their bound for a while: after a reduction of the capacity, and when sessions with
// many labels end while smaller certificates are dropped. Sessions and certificates together stay within both bounds: a
// certificate takes no more than its session did, except for an operator's name and reason, and each entry frees
// certificatesDropped of the smallest certificates, 2 MiB, while one entry adds about as much for new sessions at most.
const (
	certificateLimit    = 100_000
	certificateAge      = 7 * 24 * time.Hour
	certificatesDropped = 8192
)

// tables hold exactly what the log determines. They have no locks.
type tables struct {
	sessions sessions.Table
	// marks are the highest ids that were ever used, by node number (I7 ids are never reused).
	marks [session.MaxNode + 1]session.ID
	// usedUp has the node numbers without a free id. It follows from marks.
	usedUp nodeSet
	// attachment is the newest attachment. It counts opens, moves and upgrades (M1 a resume is a move).
	attachment uint64
	// key is the cluster key, or zero before the cluster has one.
	key      session.Key
	requests requests.Table
	// certificates are the newest certificates.
	certificates certificates.Table
	// issued counts the certificates that were ever issued, so it is the number of the next certificate. forgotten is
	// the index of the newest certificate that was dropped, or 0 before the first drop.
	issued, forgotten uint64
	// capacity bounds the sessions and bytes that opens and upgrades add (O4 state limits).
	capacity session.Capacity
	// shown is the tree state after the newest entry (D8 published roots). A frozen copy has shown, and no treeState.
	treeState *treeState
	shown     *Tree
	// bytes and sum follow from the other fields. bytes counts against the capacity, sum is part of the digest.
	bytes uint64
	sum   digest.Set
	// scratch is reused for the bytes of elements. A frozen copy has none.
	scratch []byte
}

// newTables returns the tables before the first entry.
func newTables() *tables {
	t := emptyTables()
	t.treeState = newTreeState()
	t.shown = t.treeState.freeze(0)
	return t
}

// emptyTables returns tables without a tree state, for a restore.
func emptyTables() *tables {
	return &tables{
		sessions:     sessions.New(),
		requests:     requests.New(),
		certificates: certificates.New(),
	}
}

// freeze returns a copy that never changes, for any number of concurrent readers. The cost does not depend on the size
// of the tables. The tables then copy each shared part once, at the first write to it. A copy finds sessions and
// certificates by id, and no requests.
func (t *tables) freeze() tables {
	frozen := *t
	frozen.sessions, frozen.requests = t.sessions.Freeze(), t.requests.Freeze()
	frozen.certificates = t.certificates.Freeze()
	frozen.treeState, frozen.scratch = nil, nil
	return frozen
}

func (t *tables) session(id session.ID) (*sessions.Row, bool) {
	return t.sessions.Get(id)
}

func (t *tables) certificate(id session.ID) (*certificates.Certificate, bool) {
	return t.certificates.Find(id)
}

// expired returns the error for a session that does not exist.
func (t *tables) expired(id session.ID) error {
	e := &session.ExpiredError{ID: id}
	if c, ok := t.certificate(id); ok {
		certificate := c.Session()
		e.Certificate = &certificate
	}
	return e
}

// forgotSince reports whether the tables have dropped a certificate of an entry after index since.
func (t *tables) forgotSince(since uint64) bool { return t.forgotten > since }

func (t *tables) usage() session.Usage {
	return session.Usage{
		Sessions: uint64(t.sessions.Len()), Bytes: t.bytes, CertificateBytes: t.certificates.Bytes, Capacity: t.capacity,
	}
}

// checkCapacity returns a [session.LimitError] when c exceeds the capacity of the state. It returns nil when c adds
// nothing: c is a repeat (O2 idempotent opens, L7 upgrade), or is refused for another reason.
func (t *tables) checkCapacity(c session.Command) error {
	switch c := c.(type) {
	case session.OpenSession:
		if _, ok := t.requests.Find(c.RequestID); ok {
			return nil
		}
		return t.usage().CheckCapacity(session.SessionBytes + c.SpecBytes() + session.RequestBytes)
	case session.UpgradeSession:
		_, global := t.session(c.ID)
		if _, ended := t.certificate(c.ID); global || ended || t.forgotSince(c.Since) {
			return nil
		}
		return t.usage().CheckCapacity(session.SessionBytes + c.SpecBytes())
	default:
		return nil
	}
}

// Only the methods below change sessions, marks, requests and certificates. Each keeps sum and bytes up to date.

func (t *tables) putSession(r *sessions.Row) {
	old, replaced := t.sessions.Set(r)
	if replaced {
		t.remove(old.Canonical(t.scratch))
		t.bytes -= old.Cost()
	}
	t.add(r.Canonical(t.scratch))
	t.bytes += r.Cost()
}

// removeSession removes the session r that d has just found.
func (t *tables) removeSession(d *sessions.Remover, r *sessions.Row) {
	d.Remove()
	t.remove(r.Canonical(t.scratch))
	t.bytes -= r.Cost()
	t.treeState.removeExtension(r.ID)
}

func (t *tables) setMark(mark session.ID) {
	node := mark.Node()
	if old := t.marks[node]; old != 0 {
		t.remove(canonicalMark(t.scratch, old))
	}
	t.marks[node] = mark
	if (mark + 1).Node() != node {
		t.usedUp[node/64] |= 1 << (node % 64)
	}
	t.add(canonicalMark(t.scratch, mark))
}

func (t *tables) addRequest(r *requests.Request) {
	t.requests.Add(r)
	t.add(r.Canonical(t.scratch))
	t.bytes += session.RequestBytes
}

func (t *tables) forgetRequests(upTo uint64) {
	for {
		r, ok := t.requests.Oldest()
		if !ok || r.Index > upTo {
			return
		}
		t.remove(r.Canonical(t.scratch))
		t.requests.DropOldest()
		t.bytes -= session.RequestBytes
	}
}

// addCertificate adds c as the newest certificate. c.Number must be t.issued.
func (t *tables) addCertificate(c *certificates.Certificate) {
	t.certificates.Add(c)
	t.issued++
	t.add(c.Canonical(t.scratch))
}

// trimCertificates drops the oldest certificates that exceed a bound, as many as one entry of the log may drop.
func (t *tables) trimCertificates() {
	limit, old := t.capacity.CertificateBytes(), t.treeState.time.Log-certificateAge
	for range certificatesDropped {
		kept := &t.certificates
		if len(kept.Items) == 0 {
			return
		}
		oldest := kept.Items[0]
		if len(kept.Items) <= certificateLimit && kept.Bytes <= limit && oldest.Clock >= old {
			return
		}
		t.remove(oldest.Canonical(t.scratch))
		t.forgotten = oldest.Index
		kept.DropOldest()
	}
}

func (t *tables) add(canonical []byte) {
	t.scratch = canonical
	t.sum.Add(canonical)
}

func (t *tables) remove(canonical []byte) {
	t.scratch = canonical
	t.sum.Remove(canonical)
}

func canonicalMark(b []byte, mark session.ID) []byte {
	return digest.AppendUint64s(append(b[:0], digest.KindMark), uint64(mark))
}

// digest hashes sum together with the fields that are no elements.
func (t *tables) digest() [16]byte {
	b := append(make([]byte, 0, 128), "holdfast state 1"...)
	b = digest.AppendUint64s(t.sum.Append(b), t.attachment, t.issued, t.forgotten)
	b = append(b, t.key[:]...)
	b = digest.AppendUint64s(b, t.capacity.MaxSessions, t.capacity.MaxBytes)
	b = t.shown.canonical(b)
	sum := sha256.Sum256(b)
	return [16]byte(sum[:16])
}
