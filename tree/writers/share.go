package writers

// share is what the sessions of one principal hold.
type share struct {
	principal string
	// writers counts the sessions that have written.
	writers        int
	results, wills uint64 // bytes
}

// above reports whether a principal's results leave no room for large ones of it (X3). s is nil for a principal that
// holds nothing.
func (t *Table) above(s *share) bool {
	return s != nil && s.results > t.limits.AllResults-min(t.results, t.limits.AllResults)
}

// roomForWill returns how large a session's will may be: what the principal then has must not be more than what is left
// (X3).
func (t *Table) roomForWill(w *writer, principal string) uint64 {
	had := w.will().size()
	others, mine := t.wills-had, uint64(0)
	if s := t.shares[principal]; s != nil {
		mine = s.wills
		if s == w.share {
			mine -= had
		}
	}
	return (t.limits.AllWills - min(others+mine, t.limits.AllWills)) / 2
}

// charge counts what a session holds against a principal from now on.
func (t *Table) charge(w *writer, principal string) {
	if w.share != nil && w.share.principal == principal {
		return
	}
	s := t.shares[principal]
	if s == nil {
		s = &share{principal: principal}
		t.shares[principal] = s
	}
	_, results := w.held()
	s.writers++
	s.results += results
	s.wills += w.will().size()
	t.discharge(w)
	w.share = s
}

// discharge counts what a session holds against nobody.
func (t *Table) discharge(w *writer) {
	s := w.share
	if s == nil {
		return
	}
	_, results := w.held()
	s.results -= results
	s.wills -= w.will().size()
	if s.writers--; s.writers == 0 {
		delete(t.shares, s.principal)
	}
}
