package config

import (
	"crypto/sha1"
	"encoding/base64"
	"strconv"
	"strings"

	"holdfast/tree"
)

// Tree are the settings of the tree.
type Tree struct {
	// OpenQuotas lets everybody write quotas whom the access lists allow it.
	OpenQuotas bool
	// MaxBytes bounds the memory that the entries of the tree take.
	MaxBytes uint64
	// Super is the digest, NAME:HASH, of the client that no access list holds back (P1 of the tree); "" for none.
	Super string
}

// Limits returns the bounds of the tree that this node has the replicas share while it leads (W8).
func (t Tree) Limits() tree.Limits {
	limits := tree.DefaultLimits()
	limits.OpenQuotas, limits.Bytes = t.OpenQuotas, int64(t.MaxBytes) //nolint:gosec // at most [tree.MostBytes]
	return limits
}

// superDigest reports whether text is a digest as access lists have it, or empty.
func superDigest(text string) bool {
	name, hash, _ := strings.Cut(text, ":")
	sum, err := base64.StdEncoding.DecodeString(hash)
	return text == "" || name != "" && err == nil && len(sum) == sha1.Size
}

func treeSettings() []setting {
	return []setting{
		number("max_tree_bytes", strconv.Itoa(tree.DefaultBytes), span[uint64]{tree.LeastBytes, tree.MostBytes},
			func(c *Config) *uint64 { return &c.Tree.MaxBytes }).
			helps("memory of each node for the entries of the tree, with paths, data, access lists and indexes, as the " +
				"cluster counts it: what adds to a full tree is refused; the leader's value counts"),
		toggle("open_quotas", off, func(c *Config) *bool { return &c.Tree.OpenQuotas }).
			helps("whether everybody may write quotas whom the access lists allow it, not super alone; the leader's " +
				"value counts"),
		word("super_digest", "", "NAME:HASH, HASH being the SHA-1 of NAME:PASSWORD in base64, or empty", superDigest,
			func(c *Config) *string { return &c.Tree.Super }).
			from("empty").hides().
			helps("the client that no access list of the tree holds back, as clients of this node prove it with " +
				"NAME:PASSWORD; the same on all nodes; no flag, which other users of the machine would see"),
	}
}
