package writers

import (
	"fmt"

	"github.com/tidwall/btree"
)

// Digest is a digest of a set of byte strings. It keeps none of them.
type Digest interface {
	Add(canonical []byte)
	Remove(canonical []byte)
}

// Verdict says what becomes of a write (X2, X3).
type Verdict uint8

// The verdicts.
const (
	// Apply says: the write is next. The state carries it out and calls [Table.Keep], whatever its result is.
	Apply Verdict = 1 + iota
	// Repeat says: the write's number is taken. The kept result is the answer, and nothing changes.
	Repeat
	// Unknown says: the write's number is taken, and its result is gone. Nothing changes.
	Unknown
	// Gap says: a write before this one is missing. The number stays free.
	Gap
	// Window says: the session, or all sessions of its principal, hold too many results. The number stays free.
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

// Table has the writers of all sessions, as the goroutine that applies the log writes them. Not safe for concurrent
// use. Its digest has the numbers, the results and the wills (D6).
//
// The table knows neither which sessions exist nor their attachments: the caller refuses writes of others (W3), and
// calls [Table.End] with each session's end.
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

// Freeze returns the writers as they are now, at a cost that does not depend on their number (D8).
func (t *Table) Freeze() *Root { return &Root{t.writers.Copy(), t.shares.Copy(), t.results, t.wills} }

// Take decides on a write that a session sends under a number, and returns its kept result with [Repeat]. The result
// must not be modified. After [Apply] the next call for the session must be [Table.SetWill], [Table.ClearWill] or
// [Table.Keep], unless the result does not fit ([Table.Fits]).
//
// acked says that the client has all results up to it. It counts first, whatever the verdict: otherwise a session that
// has filled its window could never say so with its next write. It may be any number: what is above the newest applied
// write counts as that write (X2).
func (t *Table) Take(session, number, acked uint64) (Verdict, []byte) {
	t.Acknowledge(session, acked)
	w := t.get(session)
	if number <= w.Applied {
		if result, ok := w.result(number); ok {
			return Repeat, result
		}
		return Unknown, nil
	}
	if number-1 != w.Applied { // number is above Applied, so it is not 0; Applied + 1 could be
		return Gap, nil
	}
	if t.full(&w) {
		return Window, nil
	}
	return Apply, nil
}

// Fits reports whether a principal has room for a result of at most so many bytes (X3): it always has for a small one.
// Otherwise a session whose results are all acknowledged could keep one of any size, and all sessions together as much
// as they like. The state asks after [Apply]: a write that does not fit keeps its number free, as with [Window].
func (t *Table) Fits(principal string, most int) bool {
	return !t.above(principal) || uint64(most) <= t.limits.Large
}

// full reports whether a session's results leave no room for another one (X3).
func (t *Table) full(w *writer) bool {
	results, bytes := w.held()
	return results >= t.limits.Results || bytes >= t.limits.Bytes || bytes > t.limits.Spare && t.above(w.principal())
}

// Keep notes that a write took its number, and keeps its result until it is acknowledged (X2, X3). What the session holds
// counts against the principal from then on. The table owns the result. Keep panics if the number is not the next: the
// state must ask [Table.Take] first.
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

// Acknowledge drops a session's results up to a number. It may be any number, as with [Table.Take]. A session that has
// not written is left alone.
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

// Moved notes that another client process has taken a session over (X4): what the former one wrote is no answer to the
// new one. Call it for no other move. It returns the two numbers for the result of the move; both are 0 for a session
// that has not written.
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

// SetWill replaces a session's will (U3), as part of a write of a principal: between [Table.Take] and [Table.Keep]. The
// table owns the data from then on. The error is that of [Table.CheckWill]; then nothing has changed.
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

// CheckWill returns a [LimitError] if the will is too large, or if its principal has no room for it (X3). A session may
// always replace its will by one that is no larger.
func (t *Table) CheckWill(session uint64, principal string, will Will) error {
	size := will.size()
	if size > MaxWill {
		return &LimitError{Field: "will", Has: size, Most: MaxWill}
	}
	w := t.get(session)
	had, room := w.will().size(), t.roomForWill(&w, principal)
	if size > had && size > room {
		return &LimitError{Field: "will", Has: size, Most: max(room, had)}
	}
	return nil
}

// ClearWill takes back a session's will, if it has one.
func (t *Table) ClearWill(session uint64) {
	if w := t.get(session); w.will() != nil {
		t.bequeath(session, w, w, nil)
	}
}

// bequeath makes next, with another will, the writer of a session in the place of w; nil is none.
func (t *Table) bequeath(session uint64, w, next writer, will *Will) {
	t.removeWill(session, next.share, w.will())
	t.addWill(session, next.share, will)
	next.holding = w.holding.withWill(will)
	t.put(session, w, next)
}

// Last is what a session's end tells of its writes (X9).
type Last struct {
	// Applied and Floor go into the certificate. Both are 0 for a session that has not written.
	Applied, Floor uint64
	// Will is nil if there is none.
	Will *Will
}

// End forgets a session, and returns what its certificate says and its will (X9, U3).
func (t *Table) End(session uint64) Last {
	w, ok := t.writers.Delete(session)
	if !ok {
		return Last{}
	}
	t.removeResults(session, &w, w.Applied)
	t.removeWill(session, w.share, w.will())
	t.scratch = w.canonical(t.scratch[:0], session)
	t.digest.Remove(t.scratch)
	t.discharge(&writer{share: w.share}) // it holds nothing any more
	return Last{Applied: w.Applied, Floor: w.Floor, Will: w.will()}
}

// put makes next the writer of a session, in the place of w.
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

// drop drops the results of w that next, which has newer numbers, does not keep.
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

// removeResults takes away the results of w up to a number.
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
