package store

import (
	"fmt"

	"holdfast/tree"
)

// counted is a quota during a transaction.
type counted struct {
	Quota
	// on says that the entry with the limits exists. A quota that is off is removed only at the end of the transaction:
	// the entry may come back before, and counting the subtree again would cost a walk.
	on bool
	// dirty says that the list of dirty quotas contains this quota: it may differ from the quota in roots.
	dirty bool
}

// tally counts entries and bytes for the quotas of a writable tree.
type tally struct {
	// byPath is nil during a restore, which counts at the end.
	byPath map[string]*counted
	dirty  []*counted
	// total is the usage of the whole tree except [tree.QuotaPath], so that the root's quota costs no walk.
	total tree.Usage
	// walked counts the entries that the transaction has visited for new quotas.
	walked int
}

// add adds entries and bytes to the quota of path and to each quota above.
func (y *tally) add(path string, count, bytes int64) {
	y.total.Count += count
	y.total.Bytes += bytes
	y.above(path, func(c *counted) bool {
		c.Used.Count += count
		c.Used.Bytes += bytes
		y.mark(c)
		return true
	})
}

// above calls f for the quota of path and each quota above, until f returns false.
func (y *tally) above(path string, f func(*counted) bool) {
	if len(y.byPath) == 0 {
		return
	}
	for ; path != ""; path = tree.Parent(path) {
		if c := y.byPath[path]; c != nil && !f(c) {
			return
		}
	}
}

func (y *tally) mark(c *counted) {
	if !c.dirty {
		c.dirty = true
		y.dirty = append(y.dirty, c)
	}
}

// account counts a change of the entry at path for the quotas, or updates the quota that the entry defines.
func (y *tally) account(path string, old, now *entry) {
	if tree.InQuotas(path) {
		if y.byPath != nil {
			y.define(path, now)
		}
		return
	}
	var count, bytes int64
	if old != nil {
		count, bytes = -1, -int64(len(old.data))
	}
	if now != nil {
		count, bytes = count+1, bytes+int64(len(now.data))
	}
	if count != 0 || bytes != 0 {
		y.add(path, count, bytes)
	}
}

// define sets a quota to the limits in the entry at path, or turns the quota off if the entry is gone. measure has
// counted the quota before.
func (y *tally) define(path string, e *entry) {
	of, ok := tree.QuotaOf(path, tree.QuotaLimitsName)
	if !ok {
		return
	}
	c := y.byPath[of]
	if c.on = e != nil; c.on {
		c.Limits = e.quota()
	}
	y.mark(c)
}

// mayDefine refuses invalid data at a path of limits, and a new quota whose subtree is too large. It counts the subtree
// of a new quota.
func (y *tally) mayDefine(r *Root, path string, data []byte) *tree.RefusedError {
	of, ok := tree.QuotaOf(path, tree.QuotaLimitsName)
	if !ok {
		return nil
	}
	if _, err := tree.ParseQuota(data); err != nil {
		return &tree.RefusedError{Code: tree.Reserved, Path: path, Detail: err.Error()}
	}
	if y.byPath[of] != nil {
		return nil
	}
	used, ok := y.measure(r, of)
	if !ok {
		return &tree.RefusedError{
			Code: tree.OverLimit, Path: path,
			Detail: fmt.Sprintf("new quotas of a transaction count at most %d entries", tree.MaxQuotaWalk),
		}
	}
	c := &counted{Quota: Quota{Path: of, Used: used}}
	y.byPath[of] = c
	y.mark(c) // so that flush removes the quota if the transaction is refused
	return nil
}

// measure returns the usage of an entry's subtree; false if the count exceeds the transaction's bound.
func (y *tally) measure(r *Root, path string) (used tree.Usage, ok bool) {
	switch {
	case path == tree.Root:
		return y.total, true
	case tree.InQuotas(path):
		return tree.Usage{}, true
	}
	take := func(e *entry) bool {
		used.Count++
		used.Bytes += int64(len(e.data))
		y.walked++
		return y.walked <= tree.MaxQuotaWalk
	}
	if e := r.get(keyOf(path)); e == nil || !take(e) {
		return used, e == nil
	}
	for levels := 1; levels <= tree.MaxDepth-tree.Depth(path); levels++ {
		before := used.Count
		r.walk(belowKey(path, levels), func(key string, e *entry) bool {
			return tree.InQuotas(pathOf(key)) || take(e)
		})
		if used.Count == before {
			break
		}
	}
	return used, y.walked <= tree.MaxQuotaWalk
}

// mayGrow refuses a change that would exceed a hard limit, with the quota, the limit and the value. Soft limits only
// report, as in ZooKeeper. A change that shrinks the subtree is never refused, also above a limit.
func (y *tally) mayGrow(path string, count, bytes int64) (refused *tree.RefusedError) {
	if tree.InQuotas(path) {
		return nil
	}
	check := func(c *counted, name string, limit, used, more int64) bool {
		if limit > tree.NoQuota && more > 0 && used+more > limit {
			refused = &tree.RefusedError{
				Code: tree.OverQuota, Path: path,
				Detail: fmt.Sprintf("quota of %s: %s is %d, would be %d", c.Path, name, limit, used+more),
			}
		}
		return refused == nil
	}
	y.above(path, func(c *counted) bool {
		return !c.on || check(c, "countHardLimit", c.Limits.CountHard, c.Used.Count, count) &&
			check(c, "byteHardLimit", c.Limits.BytesHard, c.Used.Bytes, bytes)
	})
	return refused
}

// flush updates the quotas in roots, and the digest, at the end of a transaction. So a quota costs one update, however
// many changes it counted.
func (y *tally) flush(r *Root, digest Digest) {
	for _, c := range y.dirty {
		y.show(c, r, digest)
	}
	clear(y.dirty)
	y.dirty = y.dirty[:0]
	y.walked = 0
}

// show updates one quota in roots and in the digest.
func (y *tally) show(c *counted, r *Root, digest Digest) {
	c.dirty = false
	was, existed := r.quotas.Get(c.Path)
	if existed && c.on && was == c.Quota {
		return
	}
	if existed {
		digest.Remove(was.canonical(nil))
	}
	if !c.on {
		r.quotas.Delete(c.Path)
		delete(y.byPath, c.Path)
		return
	}
	digest.Add(c.canonical(nil))
	r.quotas.Set(c.Path, c.Quota)
}

// recount computes the quotas of a tree from its entries (D7 tree snapshots). It calls step for each entry and each
// quota of a walk, and returns the error of step.
func (y *tally) recount(r *Root, digest Digest, step func() error) error {
	y.byPath = map[string]*counted{}
	for levels := 1; levels <= tree.MaxDepth-tree.Depth(tree.QuotaPath); levels++ {
		var err error
		found := false
		r.walk(belowKey(tree.QuotaPath, levels), func(key string, e *entry) bool {
			found = true
			if err = y.restoreQuota(pathOf(key), e); err == nil {
				err = step()
			}
			return err == nil
		})
		if err != nil {
			return err
		}
		if !found {
			break
		}
	}
	if len(y.byPath) == 0 {
		return nil
	}
	y.total = tree.Usage{}
	var err error
	r.entries.Scan(func(key string, e *entry) bool {
		if path := pathOf(key); !tree.InQuotas(path) {
			y.add(path, 1, int64(len(e.data)))
		}
		err = step()
		return err == nil
	})
	if err != nil {
		return err
	}
	for _, c := range y.dirty {
		if err := step(); err != nil {
			return err
		}
		y.show(c, r, digest)
	}
	clear(y.dirty)
	y.dirty = y.dirty[:0]
	return nil
}

// restoreQuota adds the quota that the entry at path defines, if any.
func (y *tally) restoreQuota(path string, e *entry) error {
	of, ok := tree.QuotaOf(path, tree.QuotaLimitsName)
	if !ok {
		return nil
	}
	limits, err := tree.ParseQuota([]byte(e.data))
	if err != nil {
		return fmt.Errorf("tree entry %q: %w", path, err)
	}
	c := &counted{Quota: Quota{Path: of, Limits: limits}, on: true}
	y.byPath[of] = c
	y.mark(c)
	return nil
}
