package migrate

import (
	"errors"
	"fmt"

	"holdfast/session"
	"holdfast/tree"
)

// Kind is the kind of a problem.
type Kind string

const (
	// Conflict is an entry that differs and stayed unchanged.
	Conflict Kind = "conflict"
	// Refused is an entry that could not be copied or compared, with all entries below unless it exists.
	Refused Kind = "refused"
	// Different is an entry that a comparison found to differ, or missing.
	Different Kind = "different"
	// Extra is an entry that lasts and that the source does not have.
	Extra Kind = "extra"
)

// Problem is an entry that could not be copied, or differs.
type Problem struct {
	// Path is relative to both chroots.
	Path string `json:"path"`
	Kind Kind   `json:"kind"`
	// Field is the different or refused property: data, acl, version, acl_version, counter, kind, path or entry.
	Field string `json:"field"`
	Why   string `json:"why"`
}

func (p Problem) String() string {
	return fmt.Sprintf("%s: %s: %s: %s", p.Path, p.Kind, p.Field, p.Why)
}

// RefusalError is the error about one entry, which does not end the copy.
type RefusalError struct {
	Field, Why string
}

func (r *RefusalError) Error() string { return r.Field + ": " + r.Why }

// refusalOf returns the RefusalError in err; nil if err is about more than one entry.
func refusalOf(err error) *RefusalError {
	if r, ok := errors.AsType[*RefusalError](err); ok {
		return r
	}
	if r, ok := errors.AsType[*tree.RefusedError](err); ok {
		why := r.Error()
		if r.Code == tree.NoPermission {
			why += ": give --digest with the cluster's super, which bypasses access lists"
		}
		return &RefusalError{Field: "entry", Why: why}
	}
	if p, ok := errors.AsType[*tree.PathError](err); ok {
		return &RefusalError{Field: "path", Why: p.Why}
	}
	if f, ok := errors.AsType[*tree.FieldError](err); ok {
		return &RefusalError{Field: f.Field, Why: f.Why}
	}
	if f, ok := errors.AsType[*session.FieldError](err); ok {
		return &RefusalError{Field: f.Field, Why: f.Limit}
	}
	return nil
}

// checkNode returns a [*RefusalError] unless a cluster can have the entry at a path.
func checkNode(full string, n Node) error {
	if err := tree.CheckPath(full); err != nil {
		return refusalOf(err)
	}
	if err := n.ACL.Check(); err != nil {
		return &RefusalError{Field: "acl", Why: err.Error()}
	}
	for _, op := range []tree.Op{
		tree.Create{Path: full, ACL: n.ACL, Kind: tree.Persistent, Data: n.Data},
		tree.Set{Path: full, Data: n.Data, Version: tree.Any},
	} {
		if size := (tree.Transaction{Then: []tree.Op{op}}).Size() + slack; size > tree.MaxRequest {
			return &RefusalError{Field: "data", Why: fmt.Sprintf(
				"has %d bytes, which make a write of %d with path and access list: at most %d", len(n.Data), size,
				tree.MaxRequest)}
		}
	}
	return nil
}

// overflowed refuses a counter that overflows ZooKeeper's 32 bits.
func overflowed(made int64) error {
	if made >= 0 {
		return nil
	}
	return &RefusalError{Field: "counter", Why: "the source's number of changes of the children has overflowed its " +
		"32 bits, so the next sequential name is unknown: copy the entry to a new parent there first"}
}
