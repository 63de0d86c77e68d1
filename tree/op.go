package tree

import (
	"math"
	"time"
)

const (
	// Any is an expected version that matches every version.
	Any = -1
	// MaxVersion is the highest expected version: the log writes versions plus 1.
	MaxVersion = math.MaxInt64 - 1
)

// Op is an operation of a [Transaction]: a [Create], [Set], [Delete], [DeleteTree], [SetACL] or [Check]. Packages that
// handle operations implement [Visitor], so that the compiler names each place to change for a new operation.
type Op interface {
	// Target is the path of the operation's entry; for a sequential create, the prefix.
	Target() string
	// Verb is the operation's name, as in a [RefusedError].
	Verb() string
	// Visit calls the visitor's method for the operation.
	Visit(v Visitor)

	// check returns a [FieldError] if a field is out of its bounds.
	check() error
	// weigh returns w with the operation's weight added, besides that of its path (U2 weight).
	weigh(w opsWeight) opsWeight
	// contentBytes is the size of the operation's data and access list.
	contentBytes() int
}

// Visitor has a method for each operation.
type Visitor interface {
	Create(op Create)
	Set(op Set)
	Delete(op Delete)
	DeleteTree(op DeleteTree)
	SetACL(op SetACL)
	Check(op Check)
}

// Create makes an entry.
type Create struct {
	// Path is the path of the new entry. With Sequential it is a prefix, and the state appends the number of children
	// that the parent has had before (D4 sequence numbers).
	Path       string
	Sequential bool
	// Data may be nil (null), which differs from empty.
	Data []byte
	// Kind is the kind of the entry, except InLockDelay.
	Kind Kind
	// Parents creates missing entries above Path, as persistent entries without data.
	Parents bool
	// TTL is the lifetime of an Expiring entry; a whole number of milliseconds.
	TTL time.Duration
	// LockDelay is the lock-delay of an Ephemeral (H2 lock-delay); a whole number of milliseconds.
	LockDelay time.Duration
	// ACL is the entry's own list; nil for an inherited list (P2 access lists).
	ACL ACL
}

// Set replaces an entry's data.
type Set struct {
	Path string
	Data []byte
	// Version is the version that the entry must have, or [Any].
	Version int64
}

// Delete removes an entry without children.
type Delete struct {
	Path string
	// Version is the version that the entry must have, or [Any].
	Version int64
}

// DeleteTree removes an entry and all entries below it, at most [MaxDeleteTree] entries.
type DeleteTree struct{ Path string }

// SetACL replaces an entry's access list.
type SetACL struct {
	Path string
	// ACL is nil to inherit a list.
	ACL ACL
	// Version is the version of the access list that the entry must have, or [Any].
	Version int64
}

// Check changes nothing. It is refused unless the entry exists and has the version.
type Check struct {
	Path string
	// Version is the version that the entry must have, or [Any].
	Version int64
}

// Target is the prefix or the path of the new entry.
func (c Create) Target() string { return c.Path }

// Verb is "create".
func (Create) Verb() string { return "create" }

// Visit calls v.Create.
func (c Create) Visit(v Visitor) { v.Create(c) }

// Target is the path of the entry.
func (s Set) Target() string { return s.Path }

// Verb is "set".
func (Set) Verb() string { return "set" }

// Visit calls v.Set.
func (s Set) Visit(v Visitor) { v.Set(s) }

// Target is the path of the entry.
func (d Delete) Target() string { return d.Path }

// Verb is "delete".
func (Delete) Verb() string { return "delete" }

// Visit calls v.Delete.
func (d Delete) Visit(v Visitor) { v.Delete(d) }

// Target is the path of the entry.
func (d DeleteTree) Target() string { return d.Path }

// Verb is "delete tree".
func (DeleteTree) Verb() string { return "delete tree" }

// Visit calls v.DeleteTree.
func (d DeleteTree) Visit(v Visitor) { v.DeleteTree(d) }

// Target is the path of the entry.
func (s SetACL) Target() string { return s.Path }

// Verb is "set ACL".
func (SetACL) Verb() string { return "set ACL" }

// Visit calls v.SetACL.
func (s SetACL) Visit(v Visitor) { v.SetACL(s) }

// Target is the path of the entry.
func (c Check) Target() string { return c.Path }

// Verb is "check".
func (Check) Verb() string { return "check" }

// Visit calls v.Check.
func (c Check) Visit(v Visitor) { v.Check(c) }
