package store_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"holdfast/tree"
	"holdfast/tree/store"
)

// end removes what a session owns.
//
//nolint:revive // flag-parameter: the test draws it
func (p *plain) end(at store.At, owner uint64, expired bool) (deeds []string) {
	var owned []string
	for path, n := range p.nodes {
		if n.owner == owner {
			owned = append(owned, path)
		}
	}
	slices.SortFunc(owned, func(a, b string) int {
		return strings.Compare(fmt.Sprintf("%03d%s", tree.Depth(a), a), fmt.Sprintf("%03d%s", tree.Depth(b), b))
	})
	for _, path := range owned {
		if n := p.nodes[path]; expired && n.life > 0 {
			n.kind, n.owner, n.due = tree.InLockDelay, 0, at.L.Milliseconds()+n.life
			continue
		}
		p.die(at, path)
		deeds = append(deeds, "-"+path)
	}
	return deeds
}

// reap removes the paths that are due and have no children.
func (p *plain) reap(at store.At) (deeds []string) {
	for _, path := range slices.Sorted(maps.Keys(p.nodes)) {
		if n := p.nodes[path]; n.due != 0 && n.due <= at.L.Milliseconds() && len(p.childrenOf(path)) == 0 {
			deeds = append(deeds, path)
		}
	}
	for _, path := range deeds {
		p.die(at, path)
	}
	return deeds
}

// guarded reports whether only somebody else may write at path.
func (p *plain) guarded(at store.At, path string) bool {
	return inQuotas(path) && !p.limit.OpenQuotas && !slices.Contains(at.Principals, tree.Principal{Scheme: tree.Super})
}

func inQuotas(path string) bool { return path == tree.QuotaPath || tree.Below(path, tree.QuotaPath) }

// quotas are those in force, counted anew.
func (p *plain) quotas() (all []store.Quota) {
	for path, n := range p.nodes {
		at, isLimits := strings.CutSuffix(path, "/zookeeper_limits")
		if !isLimits || !inQuotas(path) {
			continue
		}
		limits, err := tree.ParseQuota(n.data)
		if err != nil {
			panic(err)
		}
		q := store.Quota{Path: strings.TrimPrefix(at, "/zookeeper/quota"), Limits: limits}
		if q.Path == "" {
			q.Path = "/"
		}
		for one, n := range p.nodes {
			if !inQuotas(one) && (one == q.Path || tree.Below(one, q.Path)) {
				q.Used.Count++
				q.Used.Bytes += int64(len(n.data))
			}
		}
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b store.Quota) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// exceeds reports whether a quota would be passed.
func (p *plain) exceeds(path string, count, bytes int) bool {
	if inQuotas(path) {
		return false
	}
	for _, q := range p.quotas() {
		if q.Path != path && !tree.Below(path, q.Path) {
			continue
		}
		if count > 0 && q.Limits.CountHard >= 0 && q.Used.Count+int64(count) > q.Limits.CountHard ||
			bytes > 0 && q.Limits.BytesHard >= 0 && q.Used.Bytes+int64(bytes) > q.Limits.BytesHard {
			return true
		}
	}
	return false
}

func badLimits(path string, data []byte) bool {
	_, err := tree.ParseQuota(data)
	return err != nil && inQuotas(path) && strings.HasSuffix(path, "/zookeeper_limits")
}

// shown is the data that a reader sees.
func (p *plain) shown(path string) []byte {
	for _, q := range p.quotas() {
		if strings.TrimSuffix("/zookeeper/quota"+q.Path, "/")+"/zookeeper_stats" == path {
			return fmt.Appendf(nil, "count=%d,bytes=%d", q.Used.Count, q.Used.Bytes)
		}
	}
	return p.nodes[path].data
}
