package tree

import (
	"cmp"
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrPath matches every [PathError].
var ErrPath = errors.New("invalid path")

// PathError is an [ErrPath] that says what is wrong.
type PathError struct{ Path, Why string }

func (e *PathError) Error() string { return fmt.Sprintf("path %q %s", shortened(e.Path), e.Why) }

// Is makes e an [ErrPath].
func (*PathError) Is(target error) bool { return target == ErrPath }

// maxShown is the largest number of bytes of a text in an error.
const maxShown = 128

// shortened returns the beginning of a path that is too long for an error. It cuts at the end of a character, because
// gRPC messages must be valid UTF-8.
func shortened(path string) string {
	if len(path) <= maxShown {
		return path
	}
	end := maxShown
	for end > 0 && !utf8.RuneStart(path[end]) {
		end--
	}
	return path[:end] + "..."
}

// Code is the reason of a [RefusedError].
type Code uint8

// The reasons for which the state refuses an operation.
const (
	// NoNode: the entry does not exist.
	NoNode Code = 1 + iota
	// NoParent: the parent does not exist.
	NoParent
	// NodeExists: the entry exists already.
	NodeExists
	// NotEmpty: the entry has children.
	NotEmpty
	// BadVersion: the entry's version differs from the expected version.
	BadVersion
	// EphemeralParent: the parent is ephemeral and may have no children.
	EphemeralParent
	// NoPermission: the access list does not grant the principals the permission that the operation needs.
	NoPermission
	// OverQuota: the operation would exceed a quota (P3 quotas).
	OverQuota
	// OverLimit: the operation would exceed a limit.
	OverLimit
	// Reserved: the entry belongs to the tree itself.
	Reserved
)

// String returns the code's name.
func (c Code) String() string {
	names := [...]string{
		NoNode: "NO_NODE", NoParent: "NO_PARENT", NodeExists: "NODE_EXISTS", NotEmpty: "NOT_EMPTY",
		BadVersion: "BAD_VERSION", EphemeralParent: "EPHEMERAL_PARENT", NoPermission: "NO_PERMISSION",
		OverQuota: "QUOTA", OverLimit: "LIMIT", Reserved: "RESERVED",
	}
	if int(c) < len(names) && names[c] != "" {
		return names[c]
	}
	return fmt.Sprintf("code %d", uint8(c))
}

// RefusedError says why the state refused an operation. A refusal is a result: all replicas compute the same one (W2
// the state decides).
type RefusedError struct {
	Code Code
	// Verb and Path are the operation's. If Code is about another entry, Path is the path of that entry.
	Verb, Path string
	// Detail has the values: the entry's version, the limit with its name, or the missing permission.
	Detail string
}

// Error says which operation was refused and why, and ends with the code's name.
func (r *RefusedError) Error() string {
	of := r.Verb
	if r.Path != "" && r.Code != NoParent {
		of += " " + shortened(r.Path)
	}
	return fmt.Sprintf("%s: %s (%v)", of, r.why(), r.Code)
}

// why says what is wrong: with Detail instead of the code's text where Detail says it all.
func (r *RefusedError) why() string {
	var text string
	switch r.Code {
	case NoNode:
		return cmp.Or(r.Detail, "the entry does not exist")
	case NoParent:
		return "parent " + shortened(r.Path) + " does not exist"
	case NodeExists:
		text = "the entry exists already"
	case EphemeralParent:
		text = "the entry can have no children"
	case NoPermission:
		text = "no permission"
	case NotEmpty, BadVersion, OverQuota, OverLimit, Reserved:
		return cmp.Or(r.Detail, "refused")
	default:
		text = "refused"
	}
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	return text
}

// Is reports whether target has the same code: errors.Is(err, &tree.RefusedError{Code: tree.NoNode}).
func (r *RefusedError) Is(target error) bool {
	other, ok := target.(*RefusedError)
	return ok && other.Code == r.Code && other.Path == "" && other.Verb == ""
}

// WriteError is the [RefusedError] of a numbered write. The write has used up its number.
type WriteError struct {
	Refused *RefusedError
	// At is the position of the refused operation in its transaction; -1 for a condition.
	At int
	// Stamp is the write's stamp.
	Stamp Stamp
}

func (e *WriteError) Error() string { return e.Refused.Error() }

// Unwrap returns the refusal.
func (e *WriteError) Unwrap() error { return e.Refused }
