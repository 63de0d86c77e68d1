package plain

import (
	"cmp"
	"slices"
	"strings"

	"holdfast/tree"
)

// May reports whether the list of an entry, or else that of the nearest entry above that has one, grants principals
// the wanted permissions (P2 access lists). The entry need not exist.
func (t *Tree) May(path string, wanted tree.Permissions, principals []tree.Principal) bool {
	return Granted(t.ListOf(path), wanted, principals)
}

// ListOf returns the access list that decides about a path.
func (t *Tree) ListOf(path string) tree.ACL {
	for {
		if n := t.nodes[path]; n != nil && n.ACL != nil {
			return n.ACL
		}
		path = tree.Parent(path)
	}
}

// Granted reports whether a list grants principals the wanted permissions. It knows no networks: an address is an id.
func Granted(list tree.ACL, wanted tree.Permissions, principals []tree.Principal) bool {
	var has tree.Permissions
	for _, p := range principals {
		if p.Scheme == tree.Super {
			return true
		}
	}
	for _, g := range list {
		if g.Scheme == tree.World || slices.Contains(principals, tree.Principal{Scheme: g.Scheme, ID: g.ID}) {
			has |= g.Permissions
		}
	}
	return has&wanted == wanted
}

// mayDelete reports whether the parent's list lets an entry be deleted.
func (t *Tree) mayDelete(at At, path string) bool {
	return !t.quotaProtected(at, path) && t.May(tree.Parent(path), tree.DeleteChild, at.Principals)
}

// quotaProtected reports whether only Super may write a path: below the quota entry, unless quotas are open (P3
// quotas).
func (t *Tree) quotaProtected(at At, path string) bool {
	super := slices.ContainsFunc(at.Principals, func(p tree.Principal) bool { return p.Scheme == tree.Super })
	return inQuotas(path) && !t.OpenQuotas && !super
}

func inQuotas(path string) bool { return path == tree.QuotaPath || tree.Below(path, tree.QuotaPath) }

const limitsName = "/" + tree.QuotaLimitsName

// limited reports whether a path is that of a quota's limits.
func limited(path string) bool { return inQuotas(path) && strings.HasSuffix(path, limitsName) }

// room refuses an operation that would exceed a hard limit of a quota, and invalid limits (P3). The numbers are the
// growth of the subtree.
func (t *Tree) room(path string, entries, bytes int, data []byte) tree.Code {
	if limited(path) {
		if _, err := tree.ParseQuota(data); err != nil {
			return tree.Reserved
		}
	}
	for of, quota := range t.quotas() {
		if inQuotas(path) || path != of && !tree.Below(path, of) {
			continue
		}
		count, size := t.within(of)
		if entries > 0 && quota.CountHard > tree.NoQuota && count+int64(entries) > quota.CountHard ||
			bytes > 0 && quota.BytesHard > tree.NoQuota && size+int64(bytes) > quota.BytesHard {
			return tree.OverQuota
		}
	}
	return 0
}

// quotas returns the quotas in force, by their entries.
func (t *Tree) quotas() map[string]tree.Quota {
	all := make(map[string]tree.Quota)
	for _, limits := range t.limits {
		n := t.nodes[limits]
		if n == nil {
			continue
		}
		quota, err := tree.ParseQuota(n.Data)
		if err != nil {
			panic(err) // it was valid when it was set
		}
		all[cmp.Or(strings.TrimSuffix(strings.TrimPrefix(limits, tree.QuotaPath), limitsName), tree.Root)] = quota
	}
	return all
}

// within counts the entries of a subtree, and the bytes of their data.
func (t *Tree) within(of string) (count, bytes int64) {
	for path, n := range t.nodes {
		if !inQuotas(path) && (path == of || tree.Below(path, of)) {
			count++
			bytes += int64(len(n.Data))
		}
	}
	return count, bytes
}
