package writers

import (
	"fmt"

	"github.com/tidwall/btree"
)

// Digest is a digest of a set of byte strings. It keeps no string.
type Digest interface {
	Add(canonical []byte)
	Remove(canonical []byte)
}

// Verdict is the decision about a write (X2 writers, X3 kept results).
type Verdict uint8

// The verdicts.
const (
	// Apply: the write is the next one. The state carries it out and calls [Table.Keep], whatever the result.
	Apply Verdict = 1 + iota
	// Repeat: the write's number is used. The answer is the kept result, and nothing changes.
	Repeat
	// Unknown: the write's number is used, and its result is gone. Nothing changes.
	Unknown
	// Gap: an earlier write is missing. The number stays unused.
	Gap
	// Window: the session, or all sessions of its principal, hold too many results. The number stays unused.
	Window
)

// String returns the verdict's name.
func (v Verdict) String() string {
	names := [...]string{Apply: "APPLY", Repeat: "REPEAT", Unknown: "UNKNOWN", Gap: "GAP", Window: "WINDOW"}
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("verdict %d", uint8(v))
}

// Table has the writers of all sessions, for the goroutine that applies the log. Not safe for concurrent use. Its
// digest covers the numbers, the results and the wills (D6 tree digest).
//
// The table does not know which sessions exist, nor their attachments: the caller refuses writes of other sessions and
// attachments (W3 attachment check), and calls [Table.End] at each session's end.
type Table struct {
	Root
	digest  Digest
	limits  Limits
	scratch []byte
}

// New returns a table without writers.
func New(digest Digest, limits Limits) *Table {
	return &Table{
		Root:   Root{writers: new(btree.Map[uint64, writer]), shares: new(btree.Map[string, share])},
		digest: digest, limits: limits,
	}
}

// Freeze returns an immutable copy of the writers, at a cost that does not depend on their number (D8 published roots).
func (t *Table) Freeze() *Root { return &Root{t.writers.Copy(), t.shares.Copy(), t.results, t.wills} }

// Admit decides about a write with a number, and returns the kept result with [Repeat]. The result must not be
// modified. After [Apply] the next call for the session must be [Table.SetWill], [Table.ClearWill] or [Table.Keep],
// unless the result does not fit ([Table.Fits]).
//
// acked says that the client has all results up to this number. Take processes acked first, whatever the verdict:
// otherwise a session with a full window could never acknowledge with its next write. acked may be any number: a number
// above the newest applied write counts as the newest applied write (X2).
func (t *Table) Admit(session, number, acked uint64) (Verdict, []byte) {
	t.Acknowledge(session, acked)
	w := t.get(session)
	if number <= w.Applied {
		if result, ok := w.result(number); ok {
			return Repeat, result
		}
		return Unknown, nil
	}
	if number-1 != w.Applied { // number is above Applied, so it is not 0; Applied + 1 could overflow to 0
		return Gap, nil
	}
	if t.full(&w) {
		return Window, nil
	}
	return Apply, nil
}

// Fits reports whether a principal's share has space for a result of at most the given size (X3). A small result always
// fits. Without this check a session could keep one result of any size while all its earlier results are acknowledged,
// and all sessions together could exceed any bound. The state calls Fits after [Apply]: the number of a write that does
// not fit stays unused, as with [Window].
func (t *Table) Fits(principal string, size int) bool {
	return !t.above(principal) || uint64(size) <= t.limits.Large
}

// full reports whether a session may keep no further result (X3).
func (t *Table) full(w *writer) bool {
	results, bytes := w.held()
	return results >= t.limits.Results || bytes >= t.limits.Bytes || bytes > t.limits.Spare && t.above(w.principal())
}

// Keep records that a write has used its number, and keeps its result until the client acknowledges it (X2, X3). The
// session's results and will then count against the principal. The table owns the result. Keep panics unless the number
// is the next one: the state must call [Table.Admit] first.
func (t *Table) Keep(session, number uint64, principal string, result []byte) {
	w := t.get(session)
	if number == 0 || number-1 != w.Applied {
		panic(fmt.Sprintf("keep the result of write %d of session %#x: its newest is %d", number, session, w.Applied))
	}
	next := w
	t.charge(&next, principal)
	next.Applied = number
	next.holding = w.holding.with(result)
	t.addResult(session, next.share, number, result)
	t.put(session, w, next)
}

// Acknowledge drops a session's results up to a number, which may be any number, as with [Table.Admit]. It ignores a
// session that has not written.
func (t *Table) Acknowledge(session, upTo uint64) {
	w := t.get(session)
	upTo = min(upTo, w.Applied)
	if upTo <= w.Acked {
		return
	}
	next := w
	next.Acked = upTo
	t.drop(session, w, &next)
	t.put(session, w, next)
}

// Moved records that another client process has resumed the session (X4 a new instance starts anew): results of the
// former process must not answer the new process. Call Moved only for such moves. It returns the two numbers for the
// result of the move; both are 0 for a session without writes.
func (t *Table) Moved(session uint64) (applied, floor uint64) {
	w := t.get(session)
	if w.Floor == w.Applied {
		return w.Applied, w.Floor
	}
	next := w
	next.Floor = w.Applied
	t.drop(session, w, &next)
	t.put(session, w, next)
	return next.Applied, next.Floor
}

// SetWill replaces a session's will (U3 wills), as part of a write of a principal: between [Table.Admit] and
// [Table.Keep]. The table then owns the data. The error is the error of [Table.CheckWill], and nothing has changed
// then.
func (t *Table) SetWill(session uint64, principal string, will Will) error {
	if err := t.CheckWill(session, principal, will); err != nil {
		return err
	}
	w := t.get(session)
	next := w
	t.charge(&next, principal)
	t.bequeath(session, w, next, &will)
	return nil
}

// CheckWill returns a [LimitError] if the will is too large, or if its principal's share has no space (X3). A session
// may always replace its will by one that is not larger.
func (t *Table) CheckWill(session uint64, principal string, will Will) error {
	size := will.size()
	if size > MaxWill {
		return &LimitError{Field: "will", Has: size, Max: MaxWill}
	}
	w := t.get(session)
	had, limit := w.will().size(), t.bytesForWill(&w, principal)
	if size > had && size > limit {
		return &LimitError{Field: "will", Has: size, Max: max(limit, had)}
	}
	return nil
}

// ClearWill removes a session's will, if it has one.
func (t *Table) ClearWill(session uint64) {
	if w := t.get(session); w.will() != nil {
		t.bequeath(session, w, w, nil)
	}
}

// bequeath replaces the writer w of a session by next, with another will; nil is no will.
func (t *Table) bequeath(session uint64, w, next writer, will *Will) {
	t.removeWill(session, next.share, w.will())
	t.addWill(session, next.share, will)
	next.holding = w.holding.withWill(will)
	t.put(session, w, next)
}

// Last is a session's part about writes in its death certificate, and its will (X9 writes in the certificate).
type Last struct {
	// Applied and Floor go into the certificate. Both are 0 for a session that has not written.
	Applied, Floor uint64
	// Will is nil if there is none.
	Will *Will
}

// End forgets a session, and returns the numbers for its certificate and its will (X9, U3).
func (t *Table) End(session uint64) Last {
	w, ok := t.writers.Delete(session)
	if !ok {
		return Last{}
	}
	t.removeResults(session, &w, w.Applied)
	t.removeWill(session, w.share, w.will())
	t.scratch = w.canonical(t.scratch[:0], session)
	t.digest.Remove(t.scratch)
	t.discharge(&writer{share: w.share}) // the writer's results and will are already removed
	return Last{Applied: w.Applied, Floor: w.Floor, Will: w.will()}
}

// put replaces the writer w of a session by next.
func (t *Table) put(session uint64, w, next writer) {
	_, had := t.writers.Set(session, next)
	if had && w.Writer == next.Writer && w.share == next.share {
		return
	}
	if had {
		t.scratch = w.canonical(t.scratch[:0], session)
		t.digest.Remove(t.scratch)
	}
	t.scratch = next.canonical(t.scratch[:0], session)
	t.digest.Add(t.scratch)
}

// drop drops the results of w that next, with its newer numbers, does not keep.
func (t *Table) drop(session uint64, w writer, next *writer) {
	if next.low() == w.low() {
		return
	}
	t.removeResults(session, &w, next.low())
	next.holding = w.holding.without(int(next.low() - w.low()))
}

// The methods below keep the digest and the sums up to date.

func (t *Table) addResult(session uint64, principal *string, number uint64, result []byte) {
	t.count(principal, weigh(result), 0)
	t.scratch = canonicalResult(t.scratch[:0], session, number, result)
	t.digest.Add(t.scratch)
}

// removeResults removes the results of w up to a number.
func (t *Table) removeResults(session uint64, w *writer, upTo uint64) {
	gone := uint64(0)
	for number := w.low(); number < upTo; {
		number++
		result, _ := w.result(number)
		gone += weigh(result)
		t.scratch = canonicalResult(t.scratch[:0], session, number, result)
		t.digest.Remove(t.scratch)
	}
	if gone > 0 {
		t.count(w.share, -gone, 0)
	}
}

func (t *Table) addWill(session uint64, principal *string, will *Will) {
	if will == nil {
		return
	}
	t.count(principal, 0, will.size())
	t.scratch = will.canonical(t.scratch[:0], session)
	t.digest.Add(t.scratch)
}

func (t *Table) removeWill(session uint64, principal *string, will *Will) {
	if will == nil {
		return
	}
	t.count(principal, 0, -will.size())
	t.scratch = will.canonical(t.scratch[:0], session)
	t.digest.Remove(t.scratch)
}
