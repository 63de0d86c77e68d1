package tree

// Property is a property of an entry that a [Condition] compares.
type Property uint8

// The properties of an entry. For an entry that does not exist, Exists is 0, and a condition on any other property does
// not hold.
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

// Condition is a condition of a [Transaction].
type Condition struct {
	Path     string
	Property Property
	Is       Comparison
	Value    uint64
}

// Transaction is a change of the tree: if all conditions hold, the operations of Then run, otherwise the operations of
// Else (W6 transactions). Each operation sees the effects of the operations before it. All operations take effect, or
// none does.
type Transaction struct {
	If         []Condition
	Then, Else []Op
}

// Outcome is the outcome of a [Transaction].
type Outcome struct {
	// Else says that a condition did not hold, and the operations of Else ran.
	Else bool
	// Refused is nil when all operations took effect. Otherwise no operation did, and At is the index of the first
	// refused one; -1 for a condition about an entry that the principals may not read.
	Refused *RefusedError
	At      int
	// Ops has an outcome for each operation that took effect.
	Ops []OpOutcome
}

// OpOutcome is the outcome of an operation.
type OpOutcome struct {
	// Path is the path of the created entry.
	Path string
	// Stat is the entry's stat after a create or a set; zero otherwise.
	Stat Stat
	// Removed counts the removed entries.
	Removed int
}
