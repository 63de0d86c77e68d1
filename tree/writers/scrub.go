package writers

// Canonical calls f with all that the digest of the table has, as [Digest.Add] was given it, until f returns false. f
// must not keep the bytes.
func (r *Root) Canonical(f func(canonical []byte) bool) {
	var b []byte
	r.writers.Scan(func(session uint64, w writer) bool {
		b = w.canonical(b[:0], session)
		if !f(b) {
			return false
		}
		for number := w.low() + 1; number <= w.Applied; number++ {
			result, _ := w.result(number)
			if b = canonicalResult(b[:0], session, number, result); !f(b) {
				return false
			}
		}
		if will := w.will(); will != nil {
			b = will.canonical(b[:0], session)
			return f(b)
		}
		return true
	})
}
