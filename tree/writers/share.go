package writers

// share is what the sessions of one principal hold. Frozen copies have it too, so it is replaced and never changes.
type share struct {
	// principal is the one string that all its writers refer to.
	principal *string
	// writers counts the sessions that have written.
	writers        int
	results, wills uint64 // bytes
}

// share returns what the sessions of a principal hold.
func (r *Root) share(principal string) share {
	s, _ := r.shares.Get(principal)
	return s
}

// above reports whether a principal's results leave no room for large ones of it (X3).
func (t *Table) above(principal string) bool {
	return t.share(principal).results > t.limits.AllResults-min(t.results, t.limits.AllResults)
}

// roomForWill returns how large a session's will may be: what the principal then has must not be more than what is left
// (X3).
func (t *Table) roomForWill(w *writer, principal string) uint64 {
	had := w.will().size()
	others, mine := t.wills-had, t.share(principal).wills
	if w.share != nil && *w.share == principal {
		mine -= had
	}
	return (t.limits.AllWills - min(others+mine, t.limits.AllWills)) / 2
}

// charge counts what a session holds against a principal from now on.
func (t *Table) charge(w *writer, principal string) {
	if w.share != nil && *w.share == principal {
		return
	}
	s := t.share(principal)
	if s.principal == nil {
		s.principal = &principal
	}
	_, results := w.held()
	s.writers++
	s.results += results
	s.wills += w.will().size()
	t.shares.Set(principal, s)
	t.discharge(w)
	w.share = s.principal
}

// discharge counts what a session holds against nobody.
func (t *Table) discharge(w *writer) {
	if w.share == nil {
		return
	}
	s := t.share(*w.share)
	_, results := w.held()
	s.results -= results
	s.wills -= w.will().size()
	if s.writers--; s.writers == 0 {
		t.shares.Delete(*w.share)
		return
	}
	t.shares.Set(*w.share, s)
}

// count counts more results and wills, of a principal and of all. Less is counted with the two's complement.
func (t *Table) count(principal *string, results, wills uint64) {
	s := t.share(*principal)
	s.results += results
	s.wills += wills
	t.shares.Set(*principal, s)
	t.results += results
	t.wills += wills
}
