package writers

import (
	"encoding/binary"
	"slices"
)

// Writer is what the state keeps of a session that has written (X2).
type Writer struct {
	// Applied is the number of the newest write that took its number, 0 if none has.
	Applied uint64
	// Floor is what Applied was when another client process took the session over (X4). What became of writes up to it
	// is unknown to the process that has the session now.
	Floor uint64
	// Acked says that the client has all results up to it. Neither Floor nor Acked is above Applied.
	Acked uint64
}

// low is the number below the first kept result.
func (w Writer) low() uint64 { return max(w.Floor, w.Acked) }

// Will is what a session leaves to be done at its end (U3).
type Will struct {
	// Data are the operations and their principals, in at most [MaxWill] bytes.
	Data []byte
	// OnClose makes the will apply to a close too, and not to an expiry alone.
	OnClose bool
}

// writer is a writer with what it holds. Frozen copies share holding, so it never changes.
type writer struct {
	Writer
	holding *holding // nil if there is neither a result nor a will
	share   *string  // the principal whose share it takes; nil before the first write
}

// principal returns whose share the writer takes.
func (w *writer) principal() string {
	if w.share == nil {
		return ""
	}
	return *w.share
}

// size returns what a will counts for, 0 for nil.
func (w *Will) size() uint64 {
	if w == nil {
		return 0
	}
	return uint64(len(w.Data))
}

// holding is what a writer holds beside its numbers. It never changes, but for the room behind results.
type holding struct {
	// results are those of the numbers from low + 1 to Applied, without a gap. Only the newest holding of a writer is
	// appended to, so holdings can share an array: each reads no further than its own results go.
	results [][]byte
	// before counts the results in the array before these. They are garbage that the array still refers to.
	before int
	// bytes is the weight of the results.
	bytes uint64
	will  *Will
}

// weigh returns what a result counts for.
func weigh(result []byte) uint64 { return uint64(len(result)) + resultOverhead }

// held returns the number of the kept results, and their weight.
func (w *writer) held() (results int, bytes uint64) {
	if w.holding == nil {
		return 0, 0
	}
	return len(w.holding.results), w.holding.bytes
}

// kept returns the number of the kept results.
func (w *writer) kept() int {
	results, _ := w.held()
	return results
}

// will returns the will, nil if there is none.
func (w *writer) will() *Will {
	if w.holding == nil {
		return nil
	}
	return w.holding.will
}

// result returns the kept result of a number.
func (w *writer) result(number uint64) ([]byte, bool) {
	if number <= w.low() || number > w.Applied {
		return nil, false
	}
	return w.holding.results[number-w.low()-1], true
}

// with returns a holding with one more result.
func (h *holding) with(result []byte) *holding {
	if h == nil {
		return &holding{results: [][]byte{result}, bytes: weigh(result)}
	}
	next := *h
	if cap(h.results) == len(h.results) {
		next.before = 0 // append makes a new array
	}
	next.results = append(h.results, result)
	next.bytes += weigh(result)
	return &next
}

// without returns a holding without its first n results; nil if nothing is left. At most as many dropped results as
// there are kept ones stay in memory.
func (h *holding) without(n int) *holding {
	if n == len(h.results) {
		return h.willAlone()
	}
	next := *h
	for _, result := range h.results[:n] {
		next.bytes -= weigh(result)
	}
	next.results, next.before = h.results[n:], h.before+n
	if next.before > len(next.results) {
		next.results, next.before = slices.Clone(next.results), 0
	}
	return &next
}

// willAlone returns a holding without results.
func (h *holding) willAlone() *holding {
	if h == nil || h.will == nil {
		return nil
	}
	return &holding{will: h.will}
}

// withWill returns a holding with another will; nil is none.
func (h *holding) withWill(will *Will) *holding {
	var next holding
	if h != nil {
		next = *h
	}
	if next.will = will; will == nil && len(next.results) == 0 {
		return nil
	}
	return &next
}

// The canonical bytes of a thing begin with a byte for its kind. So no two things have the same bytes.
const (
	writerThing = 'w'
	resultThing = 'r'
	willThing   = 'l'
)

// canonical appends what the digest says of a session's writer (D6): its numbers and its principal.
func (w *writer) canonical(b []byte, session uint64) []byte {
	b = be64(append(b, writerThing), session, w.Applied, w.Floor, w.Acked)
	return append(b, w.principal()...)
}

func canonicalResult(b []byte, session, number uint64, result []byte) []byte {
	return append(be64(append(b, resultThing), session, number), result...)
}

func (w *Will) canonical(b []byte, session uint64) []byte {
	b = be64(append(b, willThing), session)
	if w.OnClose {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return append(b, w.Data...)
}

func be64(b []byte, values ...uint64) []byte {
	for _, v := range values {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}
