package store

import (
	"fmt"
	"strings"

	"github.com/tidwall/btree"

	"holdfast/tree"
)

// Quota is an active quota (P3 quotas).
type Quota struct {
	// Path is the entry at the top of the quota's subtree. The entry need not exist.
	Path   string
	Limits tree.Quota
	Used   tree.Usage
}

// canonical appends the bytes of a quota for the digest (D6 tree digest). The digest has the limits as part of an
// entry.
func (q Quota) canonical(b []byte) []byte {
	b = appendString(append(b, 'q'), q.Path)
	return appendString(b, q.Used.String())
}

// quota returns the limits in the entry's data, which were checked when the data was set.
func (e *entry) quota() tree.Quota {
	q, err := tree.ParseQuota([]byte(e.data))
	if err != nil {
		panic(fmt.Sprintf("an entry with limits has the data %q: %v", e.data, err))
	}
	return q
}

// mayWriteQuotas refuses principals other than Super at paths of quotas, unless the limits open quotas to all (P3).
func (t *Tree) mayWriteQuotas(at At, path string) *tree.RefusedError {
	if t.limits.OpenQuotas || !tree.InQuotas(path) || (tree.ACL{}).Grants(tree.All, at.Principals) {
		return nil
	}
	return &tree.RefusedError{Code: tree.NoPermission, Path: path, Detail: "only super writes quotas"}
}

// Quotas calls f for the active quotas, in the order of their paths, until f returns false.
func (r *Root) Quotas(f func(Quota) bool) {
	r.quotas.Scan(func(_ string, q Quota) bool { return f(q) })
}

// shown returns the data that the entry at path shows instead of its own, or nil, and the length of the shown data: an
// entry of [tree.QuotaStatsName] shows the usage of its quota (P3).
func (r *Root) shown(path string, e *entry) ([]byte, int) {
	if strings.HasPrefix(path, tree.QuotaPath) {
		if of, ok := tree.QuotaOf(path, tree.QuotaStatsName); ok {
			if q, ok := r.quotas.Get(of); ok {
				text := q.Used.String()
				return []byte(text), len(text)
			}
		}
	}
	return nil, len(e.data)
}

func noQuotas() *btree.Map[string, Quota] { return new(btree.Map[string, Quota]) }
