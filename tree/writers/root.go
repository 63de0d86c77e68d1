package writers

import "github.com/tidwall/btree"

// Root is the writers of all sessions at one moment. A frozen Root never changes and is safe for concurrent use.
type Root struct {
	writers *btree.Map[uint64, writer]
	// shares are those of principals whose sessions have written.
	shares *btree.Map[string, share]
	// results and wills are the weights of all of them, in bytes.
	results, wills uint64
}

// get returns the writer of a session, an empty one if it has not written.
func (r *Root) get(session uint64) writer {
	w, _ := r.writers.Get(session)
	return w
}

// Len returns the number of sessions that have written.
func (r *Root) Len() int { return r.writers.Len() }

// Held returns what the results and wills of all sessions weigh together, in bytes, as the limits of X3 count.
func (r *Root) Held() uint64 { return r.results + r.wills }

// Principal returns whose share a session's results and will take, "" for a session that has not written.
func (r *Root) Principal(session uint64) string {
	w := r.get(session)
	return w.principal()
}

// Writer returns the numbers of a session's writer, false if the session has not written.
func (r *Root) Writer(session uint64) (Writer, bool) {
	w, ok := r.writers.Get(session)
	return w.Writer, ok
}

// Result returns the kept result of a session's write, which must not be modified; false if there is none. A node that
// has not seen a write apply answers with it (W4).
func (r *Root) Result(session, number uint64) ([]byte, bool) {
	w := r.get(session)
	return w.result(number)
}

// Will returns a session's will, whose data must not be modified; false if it has none.
func (r *Root) Will(session uint64) (Will, bool) {
	w := r.get(session)
	if will := w.will(); will != nil {
		return *will, true
	}
	return Will{}, false
}
