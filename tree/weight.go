package tree

import "strings"

// Weights, as rule U2 counts the work of an entry of the log.
const (
	// MaxWeight is the weight at which an entry of the log is full. A heavier command has an entry to itself.
	MaxWeight = 100_000
	// DeleteTreeWeight is that of a [DeleteTree], QuotaWeight that of a write below [QuotaPath], which may count the
	// entries of a subtree.
	DeleteTreeWeight = 10_000
	QuotaWeight      = 100_000
)

// Weight returns how much work a transaction may make when it is applied (U2). It is at least 1, and looks at the
// transaction alone. Each condition and each entry that an operation may make, change or look at counts 1.
//
// Rule U2 counts a command as 1 whatever it holds. Weight is never less, so an entry of the log is full no later.
func Weight(x Transaction) int {
	return max(1, len(x.If)+max(weightOf(x.Then), weightOf(x.Else)))
}

func weightOf(ops []Op) (sum int) {
	for _, op := range ops {
		sum++
		switch op := op.(type) {
		case Create:
			if op.Parents {
				sum += Depth(op.Path)
			}
			sum += quotaWeight(op.Path)
		case Set:
			sum += quotaWeight(op.Path)
		case DeleteTree:
			sum += DeleteTreeWeight
		}
	}
	return sum
}

func quotaWeight(path string) int {
	if strings.HasPrefix(path, QuotaPath) {
		return QuotaWeight
	}
	return 0
}

// What an operation, a condition and a grant count besides their texts: about what their numbers take on the wire.
const (
	opBytes        = 16
	conditionBytes = 16
	grantBytes     = 8
)

// Size returns the bytes that a transaction holds: paths, data and access lists, and a fixed number for what is short.
// It is the same on all nodes and in all releases.
func (x Transaction) Size() (bytes int) {
	for _, c := range x.If {
		bytes += conditionBytes + len(c.Path)
	}
	for _, ops := range [...][]Op{x.Then, x.Else} {
		for _, op := range ops {
			bytes += opSize(op)
		}
	}
	return bytes
}

func opSize(op Op) int {
	if op == nil {
		return 0
	}
	bytes := opBytes + len(op.Target())
	switch op := op.(type) {
	case Create:
		return bytes + len(op.Data) + op.ACL.size()
	case Set:
		return bytes + len(op.Data)
	case SetACL:
		return bytes + op.ACL.size()
	default:
		return bytes
	}
}

func (a ACL) size() (bytes int) {
	for _, g := range a {
		bytes += grantBytes + len(g.Scheme) + len(g.ID)
	}
	return bytes
}
