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
	sessions *btree.Map[session.ID, *record]
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
	sum    setHash
	// scratch is where canonical bytes are put together. A frozen copy has none.
	scratch []byte
}

func newTables() *tables {
	return &tables{
		sessions:     new(btree.Map[session.ID, *record]),
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

func (t *tables) session(id session.ID) (*record, bool) {
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

// The methods below are the only ones that change the tables; each keeps the sum up to date.

func (t *tables) putSession(r *record) {
	old, replaced := t.sessions.Set(r.id, r)
	if replaced {
		t.remove(old.canonical(t.scratch))
	}
	t.add(r.canonical(t.scratch))
}

func (t *tables) dropSession(r *record) {
	t.sessions.Delete(r.id)
	t.remove(r.canonical(t.scratch))
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
}

func (t *tables) forgetRequests(upTo uint64) {
	for len(t.requests.items) > 0 && t.requests.items[0].index <= upTo {
		t.remove(t.requests.items[0].canonical(t.scratch))
		t.requests.dropOldest()
	}
}

// addCertificate takes c as the newest; it must have the number t.issued.
func (t *tables) addCertificate(c *certificate) {
	if len(t.certificates.items) == certificateLimit {
		t.remove(t.certificates.items[0].canonical(t.scratch))
		t.certificates.dropOldest()
	}
	t.certificates.add(c)
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
