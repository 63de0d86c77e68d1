package fsm

import (
	"github.com/tidwall/btree"

	"holdfast/session"
)

// certificateLimit is how many of the newest certificates are kept. At 64 bytes and two references each they take less
// than 12 MB; a client that comes back later than that learns only that its session has ended.
const certificateLimit = 100_000

// tables are the replicated state itself, without locks: what a log leads to is here, and nothing else is.
type tables struct {
	sessions *btree.Map[session.ID, *storedSession]
	// marks are the highest ids ever used, by node number (I7).
	marks [session.MaxNode + 1]session.ID
	// attachment is the counter of opens and moves (M1).
	attachment uint64
	// key is zero while the cluster has none.
	key      session.Key
	requests journal[request]
	// certificates are the newest certificateLimit of those issued.
	certificates journal[certificate]
	// issued counts the certificates ever issued; it is the next one's number.
	issued uint64
	// capacity bounds what opens and upgrades add (O4); bytes is what there is of what it counts. It follows from the
	// rest.
	capacity session.Capacity
	bytes    uint64
	sum      setHash
	// scratch is where canonical bytes are put together. A frozen copy has none.
	scratch []byte
}

func newTables() *tables {
	return &tables{
		sessions:     new(btree.Map[session.ID, *storedSession]),
		requests:     newJournal(byRequestID),
		certificates: newJournal(byCertificateID),
	}
}

// freeze returns a copy that stays as it is, for any number of concurrent readers. It costs the same whatever the size;
// afterwards, each part of the tree that is written to is copied once. Keys of journals cannot be looked up in a copy.
func (t *tables) freeze() tables {
	frozen := *t
	frozen.sessions = t.sessions.Copy()
	frozen.requests.byKey, frozen.certificates.byKey, frozen.scratch = nil, nil, nil
	return frozen
}

func (t *tables) session(id session.ID) (*storedSession, bool) {
	return t.sessions.Get(id)
}

func (t *tables) certificate(id session.ID) (*certificate, bool) {
	return t.certificates.find(&certificate{id: id})
}

// expired is the answer for a session that does not exist.
func (t *tables) expired(id session.ID) error {
	e := &session.ExpiredError{ID: id}
	if c, ok := t.certificate(id); ok {
		told := c.session()
		e.Certificate = &told
	}
	return e
}

// forgot reports whether a certificate of an entry after an index may have been dropped.
func (t *tables) forgot(since uint64) bool {
	kept := t.certificates.items
	return t.issued > uint64(len(kept)) && (len(kept) == 0 || kept[0].index > since)
}

func (t *tables) usage() session.Usage {
	return session.Usage{Sessions: uint64(t.sessions.Len()), Bytes: t.bytes, Capacity: t.capacity}
}

// room returns why c adds nothing for want of room, a [session.LimitError]; nil when there is room, or c adds nothing
// in any case: it repeats what was done (O2, L7), or is refused for something else.
func (t *tables) room(c session.Command) error {
	switch c := c.(type) {
	case session.OpenSession:
		if _, ok := t.requests.find(&request{id: c.RequestID}); ok {
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

// The methods below are the only ones that change the tables; each keeps the sum and the bytes up to date.

func (t *tables) putSession(r *storedSession) {
	old, replaced := t.sessions.Set(r.id, r)
	if replaced {
		t.remove(old.canonical(t.scratch))
		t.bytes -= old.cost()
	}
	t.add(r.canonical(t.scratch))
	t.bytes += r.cost()
}

func (t *tables) dropSession(r *storedSession) {
	t.sessions.Delete(r.id)
	t.remove(r.canonical(t.scratch))
	t.bytes -= r.cost()
}

func (t *tables) setMark(mark session.ID) {
	node := mark.Node()
	if old := t.marks[node]; old != 0 {
		t.remove(canonicalMark(t.scratch, old))
	}
	t.marks[node] = mark
	t.add(canonicalMark(t.scratch, mark))
}

func (t *tables) addRequest(r *request) {
	t.requests.add(r)
	t.add(r.canonical(t.scratch))
	t.bytes += session.RequestBytes
}

func (t *tables) forgetRequests(upTo uint64) {
	for len(t.requests.items) > 0 && t.requests.items[0].index <= upTo {
		t.remove(t.requests.items[0].canonical(t.scratch))
		t.requests.dropOldest()
		t.bytes -= session.RequestBytes
	}
}

// addCertificate takes c as the newest; it must have the number t.issued.
func (t *tables) addCertificate(c *certificate) {
	if len(t.certificates.items) == certificateLimit {
		t.remove(t.certificates.items[0].canonical(t.scratch))
		t.certificates.dropOldest()
		t.bytes -= session.CertificateBytes
	}
	t.certificates.add(c)
	t.bytes += session.CertificateBytes
	t.issued++
	t.add(c.canonical(t.scratch))
}

func (t *tables) add(canonical []byte) {
	t.scratch = canonical
	t.sum.add(canonical)
}

func (t *tables) remove(canonical []byte) {
	t.scratch = canonical
	t.sum.remove(canonical)
}
