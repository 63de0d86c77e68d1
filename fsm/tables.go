package fsm

import (
	"time"

	"holdfast/session"
)

// The state keeps the newest certificates: at most certificateLimit, none for longer than certificateAge by the log
// clock, and as many as [session.Capacity.CertificateBytes] has room for. A client whose certificate has been dropped
// learns only that its session has ended. One entry of the log drops at most certificatesDropped, which is more than it
// ends sessions (E3), so that applying it stays short: the next entries drop the rest.
//
// So certificates may take more than their room, after a drop of the capacity, and when sessions with many labels end
// where certificates of others are dropped. Sessions and certificates together stay within both rooms: a certificate
// takes no more than its session did, but for an operator's name and reason, and each entry makes room for
// certificatesDropped of the smallest, 2 MiB, while new sessions take about as much with one entry at most.
const (
	certificateLimit    = 100_000
	certificateAge      = 7 * 24 * time.Hour
	certificatesDropped = 8192
)

// tables hold exactly what the log determines, without locks.
type tables struct {
	sessions sessions
	// marks are the highest ids ever used, by node number (I7).
	marks [session.MaxNode + 1]session.ID
	// usedUp are the node numbers whose highest id is the last one there is. It follows from marks.
	usedUp numbers
	// attachment is the newest attachment: it counts opens, moves and upgrades (M1).
	attachment uint64
	// key is the cluster key, zero while the cluster has none.
	key      session.Key
	requests requests
	// certificates are the newest ones.
	certificates certificates
	// issued counts the certificates ever issued, so it is the number of the next. forgotten is the index of the newest
	// one that was dropped, 0 if none was.
	issued, forgotten uint64
	// capacity bounds what opens and upgrades add (O4).
	capacity session.Capacity
	// space is what hangs on the sessions. shown is the space as of the newest entry (D8);
	// a frozen copy has nothing else of it.
	space *space
	shown *Tree
	// bytes and sum follow from the other fields. bytes counts against the capacity, sum goes into the digest.
	bytes uint64
	sum   setHash
	// scratch is reused for canonical bytes. A frozen copy has none.
	scratch []byte
}

// newTables returns the tables before the first entry.
func newTables() *tables {
	t := emptyTables()
	t.space = newSpace()
	t.shown = t.space.freeze(0)
	return t
}

// emptyTables returns tables without a space, which a snapshot brings.
func emptyTables() *tables {
	return &tables{
		sessions:     newSessions(),
		requests:     newRequests(),
		certificates: newCertificates(),
	}
}

// freeze returns a copy that never changes, for any number of concurrent readers. Its cost does not depend on the size
// of the tables. Afterwards each part of the sessions' tree is copied once when it is first written to. A copy finds
// sessions and certificates by id, and no requests.
func (t *tables) freeze() tables {
	frozen := *t
	frozen.sessions, frozen.requests = t.sessions.freeze(), t.requests.freeze()
	frozen.certificates = t.certificates.freeze()
	frozen.space, frozen.scratch = nil, nil
	return frozen
}

func (t *tables) session(id session.ID) (*storedSession, bool) {
	return t.sessions.get(id)
}

func (t *tables) certificate(id session.ID) (*certificate, bool) {
	return t.certificates.find(id)
}

// expired returns the error for a session that does not exist.
func (t *tables) expired(id session.ID) error {
	e := &session.ExpiredError{ID: id}
	if c, ok := t.certificate(id); ok {
		certificate := c.session()
		e.Certificate = &certificate
	}
	return e
}

// forgot reports whether the tables have dropped a certificate of an entry after the index since.
func (t *tables) forgot(since uint64) bool { return t.forgotten > since }

func (t *tables) usage() session.Usage {
	return session.Usage{
		Sessions: uint64(t.sessions.size()), Bytes: t.bytes, CertificateBytes: t.certificates.bytes, Capacity: t.capacity,
	}
}

// room returns a [session.LimitError] when c is refused for want of room. It returns nil when there is room, and when c
// adds nothing: it is a repeat (O2, L7), or is refused for another reason.
func (t *tables) room(c session.Command) error {
	switch c := c.(type) {
	case session.OpenSession:
		if _, ok := t.requests.find(c.RequestID); ok {
			return nil
		}
		return t.usage().Room(session.SessionBytes + c.Labels.Bytes() + session.RequestBytes)
	case session.UpgradeSession:
		_, global := t.session(c.ID)
		if _, ended := t.certificate(c.ID); global || ended || t.forgot(c.Since) {
			return nil
		}
		return t.usage().Room(session.SessionBytes + c.Labels.Bytes())
	default:
		return nil
	}
}

// Only the methods below change sessions, marks, requests and certificates. Each keeps sum and bytes up to date.

func (t *tables) putSession(r *storedSession) {
	old, replaced := t.sessions.set(r)
	if replaced {
		t.remove(old.canonical(t.scratch))
		t.bytes -= old.cost()
	}
	t.add(r.canonical(t.scratch))
	t.bytes += r.cost()
}

// dropSession drops the session r that d has found.
func (t *tables) dropSession(d *drops, r *storedSession) {
	d.drop()
	t.remove(r.canonical(t.scratch))
	t.bytes -= r.cost()
	t.space.drop(r.id)
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

func (t *tables) addRequest(r *request) {
	t.requests.add(r)
	t.add(r.canonical(t.scratch))
	t.bytes += session.RequestBytes
}

func (t *tables) forgetRequests(upTo uint64) {
	for {
		r, ok := t.requests.oldest()
		if !ok || r.index > upTo {
			return
		}
		t.remove(r.canonical(t.scratch))
		t.requests.dropOldest()
		t.bytes -= session.RequestBytes
	}
}

// addCertificate adds c as the newest certificate. Its number must be t.issued.
func (t *tables) addCertificate(c *certificate) {
	t.certificates.add(c)
	t.issued++
	t.add(c.canonical(t.scratch))
}

// trimCertificates drops the oldest certificates that are too many, too large together or too old, those of one entry of
// the log.
func (t *tables) trimCertificates() {
	most, old := t.capacity.CertificateBytes(), t.space.time.Log-certificateAge
	for range certificatesDropped {
		kept := &t.certificates
		if len(kept.items) == 0 {
			return
		}
		oldest := kept.items[0]
		if len(kept.items) <= certificateLimit && kept.bytes <= most && oldest.clock >= old {
			return
		}
		t.remove(oldest.canonical(t.scratch))
		t.forgotten = oldest.index
		kept.dropOldest()
	}
}

func (t *tables) add(canonical []byte) {
	t.scratch = canonical
	t.sum.add(canonical)
}

func (t *tables) remove(canonical []byte) {
	t.scratch = canonical
	t.sum.remove(canonical)
}
