package tree

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Root is the path of the entry above all others. It always exists.
const Root = "/"

// Bounds of a path (D1).
const (
	// MaxPath is the length of a path in bytes, at most.
	MaxPath = 4096
	// MaxDepth is the number of names in a path, at most.
	MaxDepth = 255
)

// CheckPath returns a [PathError] unless path is one that an entry may have. Such a path begins with a slash. It is
// the root, or names between slashes; no name is empty, "." or "..". It is UTF-8 of at most [MaxPath] bytes, in at most
// [MaxDepth] names. As in ZooKeeper it has no control characters, no private ones, and none beyond U+FFEF: ZooKeeper's
// clients could not read those (N-04).
func CheckPath(path string) error {
	switch {
	case path == Root:
		return nil
	case path == "":
		return &PathError{Path: path, Why: "is empty: must begin with a slash"}
	case path[0] != '/':
		return &PathError{Path: path, Why: "must begin with a slash"}
	case len(path) > MaxPath:
		return &PathError{Path: path, Why: fmt.Sprintf("has %d bytes: at most %d", len(path), MaxPath)}
	case Depth(path) > MaxDepth:
		return &PathError{Path: path, Why: fmt.Sprintf("has %d names: at most %d", Depth(path), MaxDepth)}
	case !utf8.ValidString(path):
		return &PathError{Path: path, Why: "is not UTF-8"}
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if why := checkName(name); why != "" {
			return &PathError{Path: path, Why: why}
		}
	}
	return nil
}

// CheckPrefix returns a [PathError] unless prefix, with a sequence number behind it, is a path that an entry may have.
// A prefix may end with a slash: the number then is the whole name.
func CheckPrefix(prefix string) error {
	err := CheckPath(prefix + SequenceSuffix(0))
	if refused := (*PathError)(nil); errors.As(err, &refused) {
		refused.Path = prefix
	}
	return err
}

// checkName says what is wrong with a name; "" if nothing is.
func checkName(name string) string {
	switch name {
	case "":
		return "has an empty name: two slashes in a row, or one at the end"
	case ".", "..":
		return fmt.Sprintf("has the name %q: paths are never relative", name)
	}
	for _, r := range name {
		if !allowed(r) {
			return fmt.Sprintf("has the character %U: control characters, private ones and those above U+FFEF are "+
				"not allowed", r)
		}
	}
	return ""
}

func allowed(r rune) bool {
	switch {
	case r <= 0x1f, r >= 0x7f && r <= 0x9f:
		return false
	case r >= 0xe000 && r <= 0xf8ff, r >= 0xfff0:
		return false
	default:
		return true
	}
}

// Depth returns the number of names in a path; 0 for the root.
func Depth(path string) int {
	if path == Root {
		return 0
	}
	return strings.Count(path, "/")
}

// Parent returns the path of the entry that path is a child of. The root has no parent: Parent returns "".
func Parent(path string) string {
	switch at := strings.LastIndexByte(path, '/'); {
	case path == Root:
		return ""
	case at == 0:
		return Root
	default:
		return path[:at]
	}
}

// Name returns the last name of a path; "" for the root.
func Name(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// Join returns the path of a child.
func Join(parent, name string) string {
	if parent == Root {
		return Root + name
	}
	return parent + "/" + name
}

// Below reports whether path is that of a descendant of ancestor.
func Below(path, ancestor string) bool {
	if ancestor == Root {
		return path != Root
	}
	return len(path) > len(ancestor) && path[len(ancestor)] == '/' && path[:len(ancestor)] == ancestor
}

// MaxSequence is the largest number of a sequential name (D4).
const MaxSequence = 9_999_999_999

// SequenceSuffix returns what a sequential create appends to its prefix: n with ten digits.
func SequenceSuffix(n uint64) string { return fmt.Sprintf("%010d", n) }
