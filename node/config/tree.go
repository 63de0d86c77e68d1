package config

import (
	"crypto/sha1"
	"encoding/base64"
	"strings"

	"holdfast/session"
	"holdfast/tree"
)

// Tree are the settings of the tree.
type Tree struct {
	// Raise says whether this node, while it leads, raises the cluster to the feature level with the tree (W8).
	Raise Raise
	// FeatureLevel is the feature level to which this node raises the cluster while it leads, by the operator's word; 0
	// leaves it at the level that the founders had, or that Raise says.
	FeatureLevel int
	// OpenQuotas lets everybody write quotas whom the access lists allow it.
	OpenQuotas bool
	// Super is the digest, NAME:HASH, of the client that no access list holds back (P1 of the tree); "" for none.
	Super string
}

// Raise says when a leader raises its cluster to the feature level with the tree.
type Raise string

const (
	// RaiseFounded raises a cluster whose founders all had the tree.
	RaiseFounded Raise = "auto"
	// RaiseAlways raises every cluster: the operator's word after an upgrade.
	RaiseAlways Raise = "on"
	// RaiseNever raises none.
	RaiseNever Raise = "off"
)

// Limits returns the bounds of the tree that this node has the replicas share while it leads (W8).
func (t Tree) Limits() tree.Limits {
	limits := tree.DefaultLimits()
	limits.OpenQuotas = t.OpenQuotas
	return limits
}

// Level returns the feature level to which this node raises the cluster while it leads, 0 for none. founded is the
// level that all founders of the cluster had.
func (t Tree) Level(founded uint32) uint32 {
	level := uint32(max(t.FeatureLevel, 0))
	switch t.Raise {
	case RaiseAlways:
		level = max(level, session.TreeLevel, founded)
	case RaiseFounded:
		level = max(level, founded)
	case RaiseNever:
		return 0
	}
	return min(level, session.FeatureLevel)
}

// Coming returns the feature level that the cluster gets without anybody's word, as soon as its members have met, 0 for
// none. founded is the level that all founders of the cluster had.
func (t Tree) Coming(founded uint32) uint32 {
	if t.Raise == RaiseNever {
		return 0
	}
	return min(founded, session.FeatureLevel)
}

// superDigest reports whether text is a digest as access lists have it, or empty.
func superDigest(text string) bool {
	name, hash, _ := strings.Cut(text, ":")
	sum, err := base64.StdEncoding.DecodeString(hash)
	return text == "" || name != "" && err == nil && len(sum) == sha1.Size
}

func treeSettings() []setting {
	return []setting{
		choice("tree", string(RaiseFounded), []string{string(RaiseFounded), string(RaiseNever), string(RaiseAlways)},
			func(c *Config) *string { return (*string)(&c.Tree.Raise) }).
			helps("whether this node, while it leads, gives the cluster a tree once every member can have one; auto: if " +
				"the cluster was founded by releases with a tree; a tree never goes away, and releases without one cannot " +
				"come back"),
		number("feature_level", "0", span[int]{0, session.FeatureLevel},
			func(c *Config) *int { return &c.Tree.FeatureLevel }).
			helps("the feature level to which this node, while it leads, raises the cluster once every member can have it: " +
				"the operator's word after an upgrade; 0: the level that all founders had; a level never falls, and releases " +
				"without it cannot come back; without effect while tree is off"),
		toggle("open_quotas", off, func(c *Config) *bool { return &c.Tree.OpenQuotas }).
			helps("whether everybody may write quotas whom the access lists allow it, not super alone; the leader's " +
				"value counts"),
		word("super_digest", "", "NAME:HASH, HASH being the SHA-1 of NAME:PASSWORD in base64, or empty", superDigest,
			func(c *Config) *string { return &c.Tree.Super }).
			from("empty").
			helps("the client that no access list of the tree holds back, as clients of this node prove it with " +
				"NAME:PASSWORD; the same on all nodes"),
	}
}
