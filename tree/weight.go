package tree

// Weights, as rule U2 counts the work of an entry of the log: about a microsecond of one core of a small cloud machine.
// They bound what an operation may cost, with its part of undoing a refused transaction. What an operation costs as a
// rule is less.
const (
	// MaxWeight is the weight at which an entry of the log is full, and that of a transaction, at most: nodes apply it in
	// 50 ms.
	MaxWeight = 50_000
	// MaxWillWeight is the weight of a will, at most.
	MaxWillWeight = 20_000
	// MaxOwnedWeight is the weight of the ephemerals of a session, at most. The end of a session is one entry of the log,
	// whatever the session owns (I5, I12). So one with many ephemerals has an entry to itself, which takes up to 0.2 s:
	// ZooKeeper's bound for the same is 1 MiB of paths.
	MaxOwnedWeight = 160_000
	// DeleteTreeWeight is that of all [DeleteTree] of a transaction: the entries that they remove weigh no more together.
	// QuotaWeight is that of all its writes below [QuotaPath]: they count [MaxQuotaWalk] entries together.
	DeleteTreeWeight = 15_000
	MaxDeleteTree    = DeleteTreeWeight / deletionWeight
	QuotaWeight      = 40_000

	opWeight, conditionWeight, removalWeight, deletionWeight = 5, 2, 4, 2
)

// RemovalWeight returns the weight of the removal of an ephemeral whose session ends, or of an entry that ends by
// itself.
func RemovalWeight(path string) int { return removalWeight + pathWeight(path) }

// DeletionWeight returns the weight of the removal of an entry with those beside it, by a [DeleteTree].
func DeletionWeight(path string) int { return deletionWeight + pathWeight(path) }

// Weight returns how much work a transaction may make when it is applied (U2): 1 or more. It looks at the transaction
// alone.
func Weight(x Transaction) int {
	sum := 0
	for _, c := range x.If {
		sum += conditionWeight + pathWeight(c.Path)
	}
	return max(1, sum+max(weightOf(x.Then), weightOf(x.Else)))
}

func weightOf(ops []Op) (sum int) {
	var deletes, quotas bool
	var parents map[string]struct{}
	for _, op := range ops {
		if op == nil { // Check refuses it
			continue
		}
		path := op.Target()
		sum += opWeight + pathWeight(path)
		switch op := op.(type) {
		case Create:
			sum += dataWeight(op.Data) + op.ACL.weight()
			quotas = quotas || InQuotas(path)
			if op.Parents {
				if parents == nil {
					parents = map[string]struct{}{}
				}
				sum += parentsWeight(parents, path)
			}
		case Set:
			sum += dataWeight(op.Data)
			quotas = quotas || InQuotas(path)
		case SetACL:
			sum += op.ACL.weight()
		case DeleteTree:
			deletes = true
		case Check:
			sum += conditionWeight - opWeight
		}
	}
	if deletes {
		sum += DeleteTreeWeight
	}
	if quotas {
		sum += QuotaWeight
	}
	return sum
}

// parentsWeight returns the weight of the entries above a path that the transaction may make, but for the known ones,
// and adds them to these. The entries above a known one are known.
func parentsWeight(known map[string]struct{}, path string) (sum int) {
	for path = Parent(path); path != "" && path != Root; path = Parent(path) {
		if _, is := known[path]; is {
			break
		}
		known[path] = struct{}{}
		sum += opWeight + pathWeight(path)
	}
	return sum
}

// pathWeight is what a path adds: each byte is hashed and copied, and each level looked at for access lists and quotas.
func pathWeight(path string) int { return len(path)/64 + Depth(path)/16 }

// dataWeight is what data add: each byte is hashed and copied.
func dataWeight(data []byte) int { return len(data) / 512 }

// weight is what an access list adds.
func (a ACL) weight() int { return a.size() / 64 }

// CheckWeight returns a [FieldError] if the transaction weighs more than a bound. It is for those who take transactions
// from clients: what is in the log is carried out.
func (x Transaction) CheckWeight(most int) error {
	if weight := Weight(x); weight > most {
		return wrong("transaction", "has the weight %d: at most %d (1 is about 1 us of work); split the transaction", weight,
			most)
	}
	return nil
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
