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
	// QuotasByACL lets every client write quotas that the access lists permit.
	QuotasByACL bool
	// MaxBytes bounds the memory that the entries of the tree take.
	MaxBytes uint64
	// Super is the digest, NAME:HASH, of the client that no access list holds back (P1 principals); "" for none.
	Super string
}

// Limits returns the bounds of the tree that this node has the replicas share while it leads (W8 feature level).
func (t Tree) Limits() tree.Limits {
	limits := tree.DefaultLimits()
	limits.OpenQuotas, limits.Bytes = t.QuotasByACL, int64(t.MaxBytes) //nolint:gosec // at most [tree.MaxBytes]
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
		number("max_tree_bytes", strconv.Itoa(tree.DefaultBytes), span[uint64]{tree.MinBytes, tree.MaxBytes},
			func(c *Config) *uint64 { return &c.Tree.MaxBytes }).
			helps("memory for entries with paths, data, access lists and indexes; the leader's value counts"),
		toggle("quotas_by_acl", off, func(c *Config) *bool { return &c.Tree.QuotasByACL }).
			helps("off: only super may write quotas; on: access lists decide; the leader's value counts"),
		word("super_digest", "", "NAME:HASH, HASH being the SHA-1 of NAME:PASSWORD in base64, or empty", superDigest,
			func(c *Config) *string { return &c.Tree.Super }).
			from("empty").hides().
			helps("password digest of the client that passes every access list; the same on all nodes; no flag, because " +
				"other users of the machine see flags"),
	}
}
