package tree

// Property is what a [Condition] compares.
type Property uint8

// The properties of an entry. Of an entry that does not exist, Exists is 0 and no other property holds, whatever it is
// compared with.
const (
	// Exists is 1, or 0.
	Exists Property = 1 + iota
	// DataVersion is [Stat.Version].
	DataVersion
	// OwnerID is [Stat.Owner].
	OwnerID
	// CreatedStamp and ModifiedStamp are [Stat.Created] and [Stat.Modified].
	CreatedStamp
	ModifiedStamp
	// ChildCount is [Stat.Children].
	ChildCount
)

// Comparison is how a [Condition] compares.
type Comparison uint8

// The comparisons: the property is ... the value.
const (
	Equal Comparison = 1 + iota
	NotEqual
	Less
	Greater
)

// Condition is one of a [Transaction]'s.
type Condition struct {
	Path     string
	Property Property
	Is       Comparison
	Value    uint64
}

// Transaction is a change of the tree: if all conditions hold its operations run, otherwise those of Else (W6). Each
// operation sees those before it. All take effect, or none.
type Transaction struct {
	If         []Condition
	Then, Else []Op
}

// Outcome is what became of a [Transaction].
type Outcome struct {
	// Else says that a condition did not hold, so that the operations of Else ran.
	Else bool
	// Refused is nil when all operations took effect. Otherwise none did, and At is the first refused one; -1 for a
	// condition about an entry that the principals may not read.
	Refused *RefusedError
	At      int
	// Ops has an outcome for each operation that took effect.
	Ops []OpOutcome
}

// OpOutcome is what an operation did.
type OpOutcome struct {
	// Path is that of the created entry.
	Path string
	// Stat is the entry's after a create or a set, zero otherwise.
	Stat Stat
	// Removed counts the entries that were removed.
	Removed int
}
