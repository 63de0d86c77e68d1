package writers

// share is the part of the results and wills that the sessions of one principal hold. Frozen copies refer to it, so it
// is immutable.
type share struct {
	// principal is the string to which all writers of the principal refer.
	principal *string
	// writers counts the principal's sessions that have written.
	writers        int
	results, wills uint64 // bytes
}

// share returns the share of a principal.
func (r *Root) share(principal string) share {
	s, _ := r.shares.Get(principal)
	return s
}

// above reports whether a principal's results exceed its share, so that large results no longer fit (X3 kept results).
func (t *Table) above(principal string) bool {
	return t.share(principal).results > t.limits.AllResults-min(t.results, t.limits.AllResults)
}

// bytesForWill returns the largest size of a session's will that fits: afterwards the principal's wills must not exceed
// the free part of the budget (X3).
func (t *Table) bytesForWill(w *writer, principal string) uint64 {
	had := w.will().size()
	others, mine := t.wills-had, t.share(principal).wills
	if w.share != nil && *w.share == principal {
		mine -= had
	}
	return (t.limits.AllWills - min(others+mine, t.limits.AllWills)) / 2
}

// charge adds the session's results and will to the share of a principal.
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

// discharge removes the session's results and will from its principal's share.
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

// count adds results and wills to a principal's share and to the totals. A decrease is passed as the two's complement.
func (t *Table) count(principal *string, results, wills uint64) {
	s := t.share(*principal)
	s.results += results
	s.wills += wills
	t.shares.Set(*principal, s)
	t.results += results
	t.wills += wills
}
