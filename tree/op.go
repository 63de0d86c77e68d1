package tree

import (
	"math"
	"time"
)

const (
	// Any is the expected version that every entry has.
	Any = -1
	// MaxVersion is the highest version that may be expected: the log writes versions plus 1.
	MaxVersion = math.MaxInt64 - 1
)

// Op is an operation of a [Transaction]: a [Create], [Set], [Delete], [DeleteTree], [SetACL] or [Check].
type Op interface {
	// Target is the path that the operation is about; of a sequential create, its prefix.
	Target() string
	// Verb is the operation's name, as in a [RefusedError].
	Verb() string
}

// Create makes an entry.
type Create struct {
	// Path is that of the entry. With Sequential it is a prefix, and the state appends the number of children that the
	// parent has had before (D4).
	Path       string
	Sequential bool
	// Data may be nil, which is not the same as empty.
	Data []byte
	// Kind is that of the entry; not Lingering.
	Kind Kind
	// Parents makes missing entries above Path, as persistent ones without data.
	Parents bool
	// TTL is how long an Expiring entry lasts; a whole number of milliseconds.
	TTL time.Duration
	// Linger is the lock-delay of an Ephemeral (F2); a whole number of milliseconds.
	Linger time.Duration
	// ACL is nil for the one that the parent's children inherit (P2).
	ACL ACL
}

// Set replaces an entry's data.
type Set struct {
	Path string
	Data []byte
	// Version is the one that the entry must have, or [Any].
	Version int64
}

// Delete removes an entry without children.
type Delete struct {
	Path string
	// Version is the one that the entry must have, or [Any].
	Version int64
}

// DeleteTree removes an entry with all that is below it, [MaxDeleteTree] entries at most.
type DeleteTree struct{ Path string }

// SetACL replaces an entry's access list.
type SetACL struct {
	Path string
	// ACL is nil for the inherited one.
	ACL ACL
	// Version is the version of the access list that the entry must have, or [Any].
	Version int64
}

// Check changes nothing, and is refused unless the entry exists and has the version.
type Check struct {
	Path string
	// Version is the one that the entry must have, or [Any].
	Version int64
}

// Target is the prefix or the path of the new entry.
func (c Create) Target() string { return c.Path }

// Verb is "create".
func (Create) Verb() string { return "create" }

// Target is the path of the entry.
func (s Set) Target() string { return s.Path }

// Verb is "set".
func (Set) Verb() string { return "set" }

// Target is the path of the entry.
func (d Delete) Target() string { return d.Path }

// Verb is "delete".
func (Delete) Verb() string { return "delete" }

// Target is the path of the entry.
func (d DeleteTree) Target() string { return d.Path }

// Verb is "delete tree".
func (DeleteTree) Verb() string { return "delete tree" }

// Target is the path of the entry.
func (s SetACL) Target() string { return s.Path }

// Verb is "set ACL".
func (SetACL) Verb() string { return "set ACL" }

// Target is the path of the entry.
func (c Check) Target() string { return c.Path }

// Verb is "check".
func (Check) Verb() string { return "check" }
