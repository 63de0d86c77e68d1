package writers

import "fmt"

// Verify recomputes everything that a table keeps about its writers: each writer's contents, and the weights of
// results and wills, in total and for each principal (X3 kept results). Its error names the first difference. Verify
// calls add with everything in the table's digest, so that damaged memory shows there, and returns the error of add.
// add must not keep the bytes. Verify may run concurrently with the writer of the table.
func (r *Root) Verify(add func(canonical []byte) error) error {
	v := verifier{root: r, add: add, shares: map[string]share{}}
	var err error
	r.writers.Scan(func(session uint64, w writer) bool {
		if err = v.writer(session, &w); err != nil {
			return false
		}
		return true
	})
	if err != nil {
		return err
	}
	return v.sums()
}

// verifier is the state of one Verify. shares has the counts so far, without the principals.
type verifier struct {
	root    *Root
	add     func(canonical []byte) error
	shares  map[string]share
	scratch []byte
}

func (v *verifier) writer(session uint64, w *writer) error {
	v.scratch = w.canonical(v.scratch[:0], session)
	if err := v.add(v.scratch); err != nil {
		return err
	}
	if kept, low := w.kept(), w.low(); uint64(kept) != w.Applied-low {
		return fmt.Errorf("session %#x has %d results, and numbers for %d", session, kept, w.Applied-low)
	}
	var results uint64
	for number := w.low() + 1; number <= w.Applied; number++ {
		result, _ := w.result(number)
		results += weigh(result)
		v.scratch = canonicalResult(v.scratch[:0], session, number, result)
		if err := v.add(v.scratch); err != nil {
			return err
		}
	}
	if _, counted := w.held(); counted != results {
		return fmt.Errorf("session %#x holds results of %d bytes, and %d are counted", session, results, counted)
	}
	s := v.shares[w.principal()]
	s.writers++
	s.results += results
	s.wills += w.will().size()
	v.shares[w.principal()] = s
	if will := w.will(); will != nil {
		v.scratch = will.canonical(v.scratch[:0], session)
		return v.add(v.scratch)
	}
	return nil
}

// sums compares the shares of the principals, and the total.
func (v *verifier) sums() (err error) {
	r := v.root
	if has, want := r.shares.Len(), len(v.shares); has != want {
		return fmt.Errorf("writers: %d principals hold something, and %d are counted", want, has)
	}
	var all share
	r.shares.Scan(func(principal string, has share) bool {
		want := v.shares[principal]
		all.results, all.wills = all.results+want.results, all.wills+want.wills
		if has.principal = nil; has != want {
			err = fmt.Errorf("writers: %d sessions of %q hold %d bytes of results and %d of wills: counted are %d, %d and %d",
				want.writers, principal, want.results, want.wills, has.writers, has.results, has.wills)
		}
		return err == nil
	})
	if err == nil && (r.results != all.results || r.wills != all.wills) {
		err = fmt.Errorf("writers: all hold %d bytes of results and %d of wills: counted are %d and %d",
			all.results, all.wills, r.results, r.wills)
	}
	return err
}
