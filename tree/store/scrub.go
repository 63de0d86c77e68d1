package store

// Canonical calls f with all that the digest of the tree has, as [Digest.Add] was given it, until f returns false. f
// must not keep the bytes.
func (r *Root) Canonical(f func(canonical []byte) bool) {
	var b []byte
	going := true
	r.entries.Scan(func(key string, e *entry) bool {
		b = e.afresh().canonical(b[:0], key)
		going = f(b)
		return going
	})
	if !going {
		return
	}
	r.quotas.Scan(func(_ string, q Quota) bool {
		b = q.canonical(b[:0])
		return f(b)
	})
}
