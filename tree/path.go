package tree

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Root is the path of the topmost entry, which always exists.
const Root = "/"

// Bounds of a path (D1 tree layout).
const (
	// MaxPath is the largest length of a path in bytes.
	MaxPath = 4096
	// MaxDepth is the largest number of names in a path.
	MaxDepth = 255
)

// CheckPath returns a [PathError] if no entry may have the path. A valid path is the root, or begins with a slash and
// has names between slashes; no name is empty, "." or "..". The path is UTF-8 of at most [MaxPath] bytes and [MaxDepth]
// names. As in ZooKeeper a path has no control characters, no private characters, and no characters above U+FFEF:
// ZooKeeper's clients could not read them (N-04).
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

// CheckPrefix returns a [PathError] unless prefix with a sequence number appended is a valid path. If prefix ends with
// a slash, the number is the whole name.
func CheckPrefix(prefix string) error {
	err := CheckPath(prefix + SequenceSuffix(0))
	if refused := (*PathError)(nil); errors.As(err, &refused) {
		refused.Path = prefix
	}
	return err
}

// checkName says what is wrong with a name; "" for a valid name.
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

// Parent returns the path of the parent; "" for the root.
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

// Below reports whether path is a descendant of ancestor.
func Below(path, ancestor string) bool {
	if ancestor == Root {
		return path != Root
	}
	return len(path) > len(ancestor) && path[len(ancestor)] == '/' && path[:len(ancestor)] == ancestor
}

// MaxSequence is the largest number of a sequential name (D4 sequence numbers).
const MaxSequence = 9_999_999_999

// SequenceSuffix returns the suffix that a sequential create appends to its prefix: n with ten digits.
func SequenceSuffix(n uint64) string { return fmt.Sprintf("%010d", n) }
