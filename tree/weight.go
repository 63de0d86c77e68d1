package tree

// Weights measure the work of an entry of the log (rule U2): one unit is about a microsecond of one core of a small
// cloud machine. A weight bounds the cost of an operation, with its part in the rollback of a refused transaction. The
// usual cost is less.
const (
	// MaxWeight is the weight at which an entry of the log is full, and the largest weight of a transaction: nodes
	// apply this weight in 50 ms.
	MaxWeight = 50_000
	// MaxWillWeight is the largest weight of a will.
	MaxWillWeight = 20_000
	// MaxOwnedWeight is the largest weight of the ephemerals of a session. The end of a session is one entry of the
	// log, however many entries the session owns (I5 death is atomic, I12 no orphans). So a session with many
	// ephemerals has a log entry to itself, which takes up to 0.2 s: ZooKeeper's bound for the same is 1 MiB of paths.
	MaxOwnedWeight = 160_000
	// DeleteTreeWeight bounds the weight of the entries that all [DeleteTree] of a transaction remove together.
	// QuotaWeight is the weight of all writes of a transaction below [QuotaPath] together: they count [MaxQuotaWalk]
	// entries together.
	DeleteTreeWeight = 15_000
	MaxDeleteTree    = DeleteTreeWeight / deletionWeight
	QuotaWeight      = 40_000

	opWeight, conditionWeight, removalWeight, deletionWeight = 5, 2, 4, 2
)

// RemovalWeight returns the weight of the removal of an ephemeral at the end of its session, or of an entry that ends
// by itself.
func RemovalWeight(path string) int { return removalWeight + pathWeight(path) }

// DeletionWeight returns the weight of one entry that a [DeleteTree] removes.
func DeletionWeight(path string) int { return deletionWeight + pathWeight(path) }

// Weight returns the most work that applying a transaction can cost (U2 weight): 1 or more. It depends on the
// transaction alone.
func Weight(x Transaction) int {
	sum := 0
	for _, c := range x.If {
		sum += conditionWeight + pathWeight(c.Path)
	}
	return max(1, sum+max(weightOf(x.Then), weightOf(x.Else)))
}

// opsWeight adds up the weights of operations. It is handed on as a value: a pointer would escape to the heap.
type opsWeight struct {
	sum             int
	deletes, quotas bool
	// parents are the entries that earlier creates may make as parents.
	parents map[string]struct{}
}

func weightOf(ops []Op) int {
	var w opsWeight
	for _, op := range ops {
		if op == nil { // Check refuses it
			continue
		}
		w.sum += opWeight + pathWeight(op.Target())
		w = op.weigh(w)
	}
	if w.deletes {
		w.sum += DeleteTreeWeight
	}
	if w.quotas {
		w.sum += QuotaWeight
	}
	return w.sum
}

func (c Create) weigh(w opsWeight) opsWeight {
	w.sum += dataWeight(c.Data) + c.ACL.weight()
	w.quotas = w.quotas || InQuotas(c.Path)
	if c.Parents {
		if w.parents == nil {
			w.parents = map[string]struct{}{}
		}
		w.sum += parentsWeight(w.parents, c.Path)
	}
	return w
}

func (s Set) weigh(w opsWeight) opsWeight {
	w.sum += dataWeight(s.Data)
	w.quotas = w.quotas || InQuotas(s.Path)
	return w
}

func (Delete) weigh(w opsWeight) opsWeight { return w }

func (DeleteTree) weigh(w opsWeight) opsWeight {
	w.deletes = true
	return w
}

func (s SetACL) weigh(w opsWeight) opsWeight {
	w.sum += s.ACL.weight()
	return w
}

func (Check) weigh(w opsWeight) opsWeight {
	w.sum += conditionWeight - opWeight
	return w
}

// parentsWeight returns the weight of the entries above a path that the transaction may create, except known ones, and
// adds these entries to known. If an entry is known, all entries above it are known.
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

// pathWeight is the weight of a path: each byte is hashed and copied, and each level is checked for access lists and
// quotas.
func pathWeight(path string) int { return len(path)/64 + Depth(path)/16 }

// dataWeight is the weight of data: each byte is hashed and copied.
func dataWeight(data []byte) int { return len(data) / 512 }

// weight is the weight of an access list.
func (a ACL) weight() int { return a.size() / 64 }

// CheckWeight returns a [FieldError] if the transaction is heavier than a bound. Only nodes that accept transactions
// from clients call it: the state carries out whatever the log has.
func (x Transaction) CheckWeight(limit int) error {
	if weight := Weight(x); weight > limit {
		return wrong("transaction", "has the weight %d: at most %d (1 is about 1 us of work); split the transaction", weight,
			limit)
	}
	return nil
}

// Bytes that an operation, a condition and a grant count besides their texts: about the size of their numbers on the
// wire.
const (
	opBytes        = 16
	conditionBytes = 16
	grantBytes     = 8
)

// Size returns the bytes of a transaction: paths, data and access lists, and a fixed number for each short part. The
// result is the same on all nodes and in all releases.
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
	return opBytes + len(op.Target()) + op.contentBytes()
}

func (c Create) contentBytes() int { return len(c.Data) + c.ACL.size() }

func (s Set) contentBytes() int { return len(s.Data) }

func (Delete) contentBytes() int { return 0 }

func (DeleteTree) contentBytes() int { return 0 }

func (s SetACL) contentBytes() int { return s.ACL.size() }

func (Check) contentBytes() int { return 0 }

func (a ACL) size() (bytes int) {
	for _, g := range a {
		bytes += grantBytes + len(g.Scheme) + len(g.ID)
	}
	return bytes
}
