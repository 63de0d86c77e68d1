package writers

import "github.com/tidwall/btree"

// Root has the writers of all sessions at one moment. A frozen Root is immutable and safe for concurrent use.
type Root struct {
	writers *btree.Map[uint64, writer]
	// shares are the shares of principals whose sessions have written.
	shares *btree.Map[string, share]
	// results and wills are the weights of all results and all wills, in bytes.
	results, wills uint64
}

// get returns the writer of a session; an empty writer if the session has not written.
func (r *Root) get(session uint64) writer {
	w, _ := r.writers.Get(session)
	return w
}

// Len returns the number of sessions that have written.
func (r *Root) Len() int { return r.writers.Len() }

// Held returns the weight of all results and wills, in bytes, as the limits of X3 count it.
func (r *Root) Held() uint64 { return r.results + r.wills }

// Principal returns the principal whose share holds a session's results and will; "" for a session that has not
// written.
func (r *Root) Principal(session uint64) string {
	w := r.get(session)
	return w.principal()
}

// Writer returns the numbers of a session's writer; false if the session has not written.
func (r *Root) Writer(session uint64) (Writer, bool) {
	w, ok := r.writers.Get(session)
	return w.Writer, ok
}

// Result returns the kept result of a session's write, which must not be modified; false if there is none. A node uses
// it to answer a write that it has not seen being applied (W4 answers from applied entries).
func (r *Root) Result(session, number uint64) ([]byte, bool) {
	w := r.get(session)
	return w.result(number)
}

// Will returns a session's will, whose data must not be modified; false if there is none.
func (r *Root) Will(session uint64) (Will, bool) {
	w := r.get(session)
	if will := w.will(); will != nil {
		return *will, true
	}
	return Will{}, false
}
