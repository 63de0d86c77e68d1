package migrate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast/tree"
)

const (
	// slack is an upper bound of a request's size besides its transaction.
	slack = 1 << 10
	// maxSteps bounds the operations of one transaction: a larger transaction would keep the nodes from other work for
	// long.
	maxSteps = 2000
)

// existing is an entry at the target.
type existing struct {
	exists    bool
	data      []byte
	acl       tree.ACL
	inherited bool
	stat      tree.Stat
}

// isRefused reports whether the tree has refused an operation for a reason.
func isRefused(err error, code tree.Code) bool {
	return errors.Is(err, &tree.RefusedError{Code: code})
}

// at reads an entry of the target. The answers are not of one moment, and a write checks that nothing has changed.
func (r *run) at(ctx context.Context, path string) (h existing, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	e, err := r.to.Get(ctx, path)
	if isRefused(err, tree.NoNode) {
		return existing{}, nil
	}
	if err != nil {
		return existing{}, err
	}
	list, err := r.to.GetACL(ctx, path)
	if isRefused(err, tree.NoNode) {
		return existing{}, nil
	}
	e.Stat.ACLVersion = list.Stat.ACLVersion
	return existing{exists: true, data: e.Data, acl: list.ACL, inherited: list.Inherited, stat: e.Stat}, err
}

// entry makes the target's entry equal to the source's, or compares both. It returns the number of the entry's children
// at the target, -1 without an entry.
func (r *run) entry(ctx context.Context, path string, n Node) (children int, err error) {
	if path != tree.Root && r.full(path) == reserved { // of a chroot's own; without: the cluster's is overwritten
		return -1, &RefusalError{Field: "path", Why: "is where the cluster keeps its own affairs: give --to"}
	}
	if err := checkNode(r.full(path), n); err != nil {
		return -1, err
	}
	did := untouched
	for {
		h, err := r.at(ctx, path)
		if err != nil {
			return -1, err
		}
		if r.left(path, n, h, did) {
			return childrenOf(h), nil
		}
		ops, last, now := r.step(path, n, h)
		if len(ops) == 0 || r.verifying() {
			r.became(n, h, did)
			return childrenOf(h), nil
		}
		if err := r.write(ctx, ops); err != nil {
			return -1, err
		}
		did = cmp.Or(did, now)
		if last {
			r.became(n, h, did)
			return h.stat.Children, nil
		}
	}
}

// left reports whether an entry differs and stays different, and records the problem.
func (r *run) left(path string, n Node, h existing, did outcome) bool {
	differs := r.differs(n, h)
	switch {
	case differs == nil:
		return false
	case r.verifying():
		r.note(Problem{Path: path, Kind: Different, Field: differs.Field, Why: differs.Why})
		return true
	case r.may(differs, path, h, did):
		return false
	default:
		r.note(Problem{Path: path, Kind: Conflict, Field: differs.Field, Why: differs.Why})
		return true
	}
}

func childrenOf(h existing) int {
	if !h.exists {
		return -1
	}
	return h.stat.Children
}

// full returns the path in the cluster's tree.
func (r *run) full(path string) string {
	root := strings.TrimSuffix(r.to.Root(), "/")
	if path == tree.Root && root != "" {
		return root
	}
	return root + path
}

// outcome is the outcome of a copy for an entry.
type outcome int

const (
	untouched outcome = iota
	created
	overwritten
	raised
)

// differs returns how an existing entry differs from the source; nil if it does not. Higher numbers at the target are
// no difference, because numbers cannot be lowered.
func (r *run) differs(n Node, h existing) *RefusalError {
	switch {
	case !h.exists && !r.verifying():
		return nil
	case !h.exists:
		return &RefusalError{Field: "entry", Why: "the target does not have it"}
	case h.stat.Kind != tree.Persistent:
		return &RefusalError{
			Field: "kind", Why: "is " + h.stat.Kind.String() + " at the target, and persistent at the source",
		}
	case (n.Data == nil) != (h.data == nil) || !bytes.Equal(n.Data, h.data):
		return &RefusalError{Field: "data", Why: fmt.Sprintf("is not the same: %s at the source, %s at the target",
			sizeOf(n.Data), sizeOf(h.data))}
	case h.inherited || !slices.Equal(n.ACL, h.acl):
		return &RefusalError{Field: "acl", Why: "is not the same"}
	case !r.verifying():
		return nil
	case r.wanted(n.Version) > h.stat.Version:
		return &RefusalError{Field: "version", Why: fmt.Sprintf("is %d at the target, %d at the source",
			h.stat.Version, n.Version)}
	case r.wanted(n.ACLVersion) > h.stat.ACLVersion:
		return &RefusalError{Field: "acl_version", Why: fmt.Sprintf("is %d at the target, %d at the source",
			h.stat.ACLVersion, n.ACLVersion)}
	default:
		return nil
	}
}

func sizeOf(data []byte) string {
	if data == nil {
		return "null"
	}
	return fmt.Sprintf("%d bytes", len(data))
}

// may reports whether a difference may be overwritten: with Options.Overwrite, at the root of an unused tree, and in an
// entry that this copy has started itself.
func (r *run) may(differs *RefusalError, path string, h existing, did outcome) bool {
	if differs.Field == "kind" {
		return false
	}
	fresh := r.full(path) == tree.Root && h.stat.Version == 0 && h.data == nil && h.stat.ACLVersion == 0
	return r.Overwrite || fresh || did == overwritten
}

// wanted returns the version to reach at the target for a version at the source.
func (r *run) wanted(version int64) int64 {
	if version < 0 || version > r.MaxVersion {
		return 0
	}
	return version
}

// step returns the next operations that bring an entry closer to the source's, none when it is equal. last reports that
// no step remains after them. Each transaction leaves the entry with the source's data: rewriting it raises the
// version, and the steps in between stay invisible.
func (r *run) step(path string, n Node, h existing) (ops []tree.Op, last bool, did outcome) {
	sets, lists := r.wanted(n.Version)-h.stat.Version, r.wanted(n.ACLVersion)-h.stat.ACLVersion
	did = raised
	switch {
	case !h.exists:
		did = created
		create := tree.Create{
			Path: path, Kind: tree.Persistent, Parents: path == tree.Root && r.to.Root() != tree.Root, ACL: n.ACL,
		}
		if sets == 0 {
			create.Data = n.Data
		}
		ops = append(ops, create)
	case h.inherited || !slices.Equal(n.ACL, h.acl):
		did, lists = overwritten, max(lists, 1)
	case (n.Data == nil) != (h.data == nil) || !bytes.Equal(n.Data, h.data):
		did, sets = overwritten, max(sets, 1)
	}
	if h.exists && (sets > 0 || lists > 0) {
		ops = append(ops, tree.Check{Path: path, Version: h.stat.Version})
	}
	if h.exists && lists > 0 { // the list first: a stricter list hides the new data
		count := min(lists, r.maxOps(path, 0, listSize(n.ACL)))
		ops = append(ops, slices.Repeat([]tree.Op{tree.SetACL{Path: path, ACL: n.ACL, Version: tree.Any}}, int(count))...)
		return ops, false, did
	}
	if sets > 0 {
		count := min(sets, r.maxOps(path, len(n.Data)+listSize(n.ACL), 0))
		ops = append(ops, slices.Repeat([]tree.Op{tree.Set{Path: path, Version: tree.Any}}, int(count-1))...)
		ops = append(ops, tree.Set{Path: path, Data: n.Data, Version: tree.Any})
		return ops, count == sets && lists <= 0, did
	}
	return ops, lists <= 0, did
}

// maxOps is how many operations about a path fit into a transaction with the given other bytes; at least one.
func (r *run) maxOps(path string, others, each int) int64 {
	return int64(max(1, min(maxSteps, (tree.MaxRequest/2-others)/(len(r.full(path))+each+64))))
}

func listSize(acl tree.ACL) (size int) {
	for _, g := range acl {
		size += len(g.Scheme) + len(g.ID) + 16
	}
	return size
}

// became counts the outcome for an entry.
func (r *run) became(n Node, h existing, did outcome) {
	r.count(func(c *Counts) {
		switch did {
		case created:
			c.Created++
		case overwritten:
			c.Overwritten++
		case raised:
			c.Raised++
		case untouched:
			c.Equal++
		}
		if r.wanted(n.Version) != n.Version || r.wanted(n.ACLVersion) != n.ACLVersion {
			c.Lost++
		} else if h.stat.Version > n.Version || h.stat.ACLVersion > n.ACLVersion {
			c.Ahead++
		}
	})
}

// write carries out operations, all or none.
func (r *run) write(ctx context.Context, ops []tree.Op) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	_, err := r.to.Transact(ctx, tree.Transaction{Then: ops})
	return err
}

// counter raises the number of the next sequential name below an entry, by making and removing a child: the tree counts
// the children that were ever made (D4 sequence numbers).
func (r *run) counter(ctx context.Context, d *directory) error {
	if err := overflowed(d.made); err != nil {
		return err
	}
	name, raised := spareName(d.names, "i"), false
	for {
		h, err := r.at(ctx, d.path)
		if err != nil || !h.exists {
			return err
		}
		missing := d.made - (h.stat.ChildrenVersion+int64(h.stat.Children))/2
		switch {
		case missing <= 0:
			return nil
		case r.verifying():
			r.note(Problem{Path: d.path, Kind: Different, Field: "counter", Why: fmt.Sprintf(
				"the next sequential name has number %d at the target, %d at the source", d.made-missing, d.made)})
			return nil
		case missing > r.MaxCounter:
			return &RefusalError{Field: "counter", Why: fmt.Sprintf("must be raised by %d, which takes as many writes: "+
				"at most %d, see --max-counter", missing, r.MaxCounter)}
		}
		path := tree.Join(d.path, name)
		if err = tree.CheckPath(r.full(path)); err != nil {
			return err
		}
		var ops []tree.Op
		for range min(missing, r.maxOps(path, 0, len(path))/2) {
			ops = append(ops, tree.Create{Path: path, Kind: tree.Persistent}, tree.Delete{Path: path, Version: tree.Any})
		}
		err = r.write(ctx, ops)
		switch {
		case isRefused(err, tree.NodeExists): // the source has deleted it, or never had it
			name = spareName(d.names, name+"i")
		case err != nil:
			return err
		case !raised:
			raised = true
			r.count(func(c *Counts) { c.Counters++ })
		}
	}
}

// spareName is a name that no child of the source has, the first from name on.
func spareName(names []string, name string) string {
	for {
		if _, exists := slices.BinarySearch(names, name); !exists {
			return name
		}
		name += "i"
	}
}
