package writers

import (
	"encoding/binary"
	"slices"
)

// Writer has the numbers of a session that has written (X2 writers).
type Writer struct {
	// Applied is the number of the newest write that has used its number; 0 for none.
	Applied uint64
	// Floor is the value of Applied when another client process took the session over (X4 a new instance starts anew).
	// The present process cannot know the outcome of writes up to Floor.
	Floor uint64
	// Acked says that the client has all results up to this number. Floor and Acked are at most Applied.
	Acked uint64
}

// low is the number below the first kept result.
func (w Writer) low() uint64 { return max(w.Floor, w.Acked) }

// Will is a session's will (U3 wills).
type Will struct {
	// Data are the operations and their principals, in at most [MaxWill] bytes.
	Data []byte
	// OnClose carries the will out on a close too, and not only on an expiry.
	OnClose bool
}

// writer is a writer with its results and will. Frozen copies share holding, so it is immutable.
type writer struct {
	Writer
	holding *holding // nil without results and will
	share   *string  // the principal whose share holds the results and the will; nil before the first write
}

// principal returns the principal whose share holds the writer's results and will.
func (w *writer) principal() string {
	if w.share == nil {
		return ""
	}
	return *w.share
}

// size returns the weight of a will; 0 for nil.
func (w *Will) size() uint64 {
	if w == nil {
		return 0
	}
	return uint64(len(w.Data))
}

// holding has the results and the will of a writer. It is immutable, except for the spare capacity of results.
type holding struct {
	// results are the results of the numbers from low + 1 to Applied, without a gap. Only the newest holding of a
	// writer appends, so holdings can share an array: each reads only its own results.
	results [][]byte
	// before counts the dropped results at the beginning of the array, which still keeps them in memory.
	before int
	// bytes is the weight of the results.
	bytes uint64
	will  *Will
}

// weigh returns the weight of a result.
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

// will returns the will; nil if there is none.
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

// without returns a holding without its first n results; nil if neither results nor a will remain. The dropped results
// that stay in memory are at most as many as the kept results.
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

// The first byte of canonical bytes is the kind of the value, so that values of different kinds differ.
const (
	writerThing = 'w'
	resultThing = 'r'
	willThing   = 'l'
)

// canonical appends the bytes of a session's writer for the digest (D6 tree digest): its numbers and its principal.
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
