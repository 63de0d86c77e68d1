package store

import (
	"fmt"

	"holdfast/tree"
)

// siblings counts children during a scan of a tree's entries in the order of their keys: all children of an entry are
// neighbours, and come after the entry.
type siblings struct {
	root *Root
	// parent is the key of the present entry's parent, and seen the number of its children so far.
	parent string
	seen   uint32
	// declared is the sum of the numbers of children in all entries.
	declared uint64
}

// child counts a child of the entry with the key parent.
func (s *siblings) child(parent string) error {
	if parent != s.parent {
		if err := s.last(); err != nil {
			return err
		}
		s.parent, s.seen = parent, 0
	}
	above := s.root.get(parent)
	switch {
	case above == nil:
		return fmt.Errorf("has no parent")
	case !above.mayHaveChildren():
		return fmt.Errorf("is below an entry of kind %v", above.kind)
	}
	s.seen++
	return nil
}

// last compares the children of one parent with the parent's number, after the last child.
func (s *siblings) last() error {
	if s.parent == "" {
		return nil
	}
	if has := s.root.get(s.parent).children; has != s.seen {
		return fmt.Errorf("%q has %d children, and says %d", pathOf(s.parent), s.seen, has)
	}
	return nil
}

// end compares the total, so that an entry without children cannot have a wrong number.
func (s *siblings) end() error {
	if err := s.last(); err != nil {
		return fmt.Errorf("tree: %w", err)
	}
	if has := uint64(s.root.Len() - 1); s.declared != has {
		return fmt.Errorf("tree: all entries together have %d children, and say %d", has, s.declared)
	}
	return nil
}

// verifyRun is the number of entries that Verify checks between two pauses: a few milliseconds of a processor.
const verifyRun = 5000

// pacer calls pace after every verifyRun steps.
type pacer struct {
	pace  func() error
	steps int
}

// step counts a step, and returns the error of pace.
func (p *pacer) step() error {
	if p.steps++; p.steps%verifyRun == 0 {
		return p.pace()
	}
	return nil
}

// Verify recomputes everything that a tree keeps about its entries, and returns an error that names the first
// difference: the numbers of children, the owners with their indexes and the weights of their ephemerals, the entries
// that end by themselves (I12 no orphans), the usage of quotas (I16 counts), and the memory of the entries. It adds the
// tree's part of the state's digest to digest, so that damaged memory shows there.
//
// alive reports whether a session exists. Verify calls pace after every few thousand entries of each walk, and returns
// its error. It may run concurrently with the writer of the tree.
func (r *Root) Verify(digest Digest, alive func(owner uint64) bool, pace func() error) error {
	v := verifier{
		root: r, digest: digest, alive: alive, pacer: pacer{pace: pace}, children: siblings{root: r},
		lists: map[*interned]struct{}{},
	}
	var err error
	r.entries.Scan(func(key string, e *entry) bool {
		if err = v.entry(key, e); err != nil {
			err = fmt.Errorf("tree entry %q: %w", pathOf(key), err)
			return false
		}
		err = v.pacer.step()
		return err == nil
	})
	if err != nil {
		return err
	}
	if err := v.children.end(); err != nil {
		return err
	}
	return v.indexes()
}

// verifier is the state of one Verify.
type verifier struct {
	root     *Root
	digest   Digest
	alive    func(uint64) bool
	pacer    pacer
	children siblings
	// owned and ending count the entries that must be in the indexes.
	owned, ending int
	// kept is the memory of the entries with their lists.
	kept    int64
	lists   map[*interned]struct{}
	scratch []byte
}

func (v *verifier) entry(key string, e *entry) error {
	v.scratch = e.afresh().canonical(v.scratch[:0], key)
	v.digest.Add(v.scratch)
	v.children.declared += uint64(e.children)
	v.kept += e.kept(key)
	if _, counted := v.lists[e.acl]; e.acl != nil && !counted {
		v.lists[e.acl] = struct{}{}
		v.kept += e.acl.kept()
	}
	if key != rootKey {
		if err := v.children.child(keyOf(tree.Parent(pathOf(key)))); err != nil {
			return err
		}
	}
	if (e.owner != 0) != (e.kind == tree.Ephemeral) || e.owner != 0 && !v.alive(e.owner) {
		return fmt.Errorf("is %v and has owner %#x", e.kind, e.owner)
	}
	if e.owner != 0 {
		v.owned++
		if _, ok := v.root.owned.Get(numbered(e.owner, key)); !ok {
			return fmt.Errorf("is not in the index of owner %#x", e.owner)
		}
	}
	if e.ends() {
		v.ending++
		if _, ok := v.root.dueSoon.Get(numbered(e.turn(), key)); !ok {
			return fmt.Errorf("is not in the index of entries that end at %d ms", e.dueMS)
		}
	}
	return nil
}

// indexes checks that the indexes have no other entries, and counts for the quotas.
func (v *verifier) indexes() error {
	r := v.root
	if has := r.owned.Len(); has != v.owned {
		return fmt.Errorf("tree: the owners' index has %d entries, want %d", has, v.owned)
	}
	if err := v.weights(); err != nil {
		return err
	}
	if has := r.dueSoon.Len(); has != v.ending {
		return fmt.Errorf("tree: the index of ending entries has %d entries, want %d", has, v.ending)
	}
	if r.bytes != v.kept {
		return fmt.Errorf("tree: the entries take %d bytes, and %d are counted", v.kept, r.bytes)
	}
	again := Root{entries: r.entries, quotas: noQuotas()}
	if err := new(tally).recount(&again, v.digest, v.pacer.step); err != nil {
		return err
	}
	if has, want := r.quotas.Len(), again.quotas.Len(); has != want {
		return fmt.Errorf("tree: there are %d quotas, want %d", has, want)
	}
	var err error
	r.Quotas(func(q Quota) bool {
		if want, _ := again.quotas.Get(q.Path); want != q {
			err = fmt.Errorf("tree: the quota of %q is %+v, want %+v", q.Path, q, want)
			return false
		}
		err = v.pacer.step()
		return err == nil
	})
	return err
}

// weights checks the count and weight of each session's ephemerals (U2 weight). The index of owners has the ephemerals
// of one session next to each other.
func (v *verifier) weights() (err error) {
	r := v.root
	var owner uint64
	var of ephemerals
	owners := 0
	check := func() bool {
		if has := r.ephemeralsOf(owner); err == nil && of.count > 0 && has != of {
			err = fmt.Errorf("tree: session %#x owns %d entries of weight %d, and %d of weight %d are counted",
				owner, of.count, of.weight, has.count, has.weight)
		}
		return err == nil
	}
	r.owned.Scan(func(indexed string, _ struct{}) bool {
		n, key := numberedParts(indexed)
		if n != owner {
			if !check() {
				return false
			}
			owner, of = n, ephemerals{}
			owners++
		}
		of = of.plus(1, tree.RemovalWeight(pathOf(key)))
		err = v.pacer.step()
		return err == nil
	})
	if check() && r.ephemerals.Len() != owners {
		err = fmt.Errorf("tree: ephemerals are counted for %d sessions, want %d", r.ephemerals.Len(), owners)
	}
	return err
}
