package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast/tree"
)

// view is a frozen tree with the permissions of a client's principals.
type view struct {
	root       *Root
	principals []tree.Principal
}

var _ tree.Frozen = (*Root)(nil)

// As implements [tree.Frozen].
func (r *Root) As(principals []tree.Principal) tree.View {
	return view{root: r, principals: principals}
}

// readable returns the entry at path if the principals have any of the permissions.
func (v view) readable(verb, path string, wanted ...tree.Permissions) (*entry, error) {
	e := v.root.get(keyOf(path))
	if e == nil {
		return nil, &tree.RefusedError{Code: tree.NoNode, Verb: verb, Path: path}
	}
	list := v.root.own(path).list
	if slices.ContainsFunc(wanted, func(p tree.Permissions) bool { return list.Grants(p, v.principals) }) {
		return e, nil
	}
	return nil, &tree.RefusedError{Code: tree.NoPermission, Verb: verb, Path: path, Detail: "needs " + wanted[0].String()}
}

// Get returns an entry with its data. It needs Read.
func (v view) Get(path string) (tree.Node, error) {
	e, err := v.readable("get", path, tree.Read)
	if err != nil {
		return tree.Node{}, err
	}
	return v.root.node(path, e), nil
}

// Exists returns the stat of an entry; false if there is none. It needs Read of an entry that exists.
func (v view) Exists(path string) (stat tree.Stat, exists bool, err error) {
	e, err := v.readable("exists", path, tree.Read)
	switch {
	case errors.Is(err, &tree.RefusedError{Code: tree.NoNode}):
		return tree.Stat{}, false, nil
	case err != nil:
		return tree.Stat{}, false, err
	}
	return v.root.stat(path, e), true, nil
}

// ACL returns the access list in force for an entry. It needs Read or Admin. Without Admin it hides the secrets of
// digests (P2 access lists).
func (v view) ACL(path string) (tree.AccessList, error) {
	e, err := v.readable("get ACL", path, tree.Read, tree.Admin)
	if err != nil {
		return tree.AccessList{}, err
	}
	list := v.root.own(path).list
	if !list.Grants(tree.Admin, v.principals) {
		list = masked(list)
	}
	return tree.AccessList{ACL: list, Inherited: e.acl == nil, Stat: v.root.stat(path, e)}, nil
}

// masked returns a list with hidden hashes of digests, as ZooKeeper shows them.
func masked(list tree.ACL) tree.ACL {
	list = slices.Clone(list)
	for i, g := range list {
		if g.Scheme == tree.Digest {
			name, _, _ := strings.Cut(g.ID, ":")
			list[i].ID = name + ":x"
		}
	}
	return list
}

// CheckFence returns the session that owns the ephemeral at path, if token is its fencing token: the stamp of its
// creation (H1 fencing tokens). It refuses otherwise: the lock is gone, or another session holds it. It needs Read. The
// answer is as linearizable as the root.
func (v view) CheckFence(path string, token tree.Stamp) (owner uint64, err error) {
	e, err := v.readable("check fence", path, tree.Read)
	switch {
	case err != nil:
		return 0, err
	case e.created != token:
		return 0, &tree.RefusedError{
			Code: tree.BadVersion, Verb: "check fence", Path: path,
			Detail: fmt.Sprintf("token is %v, expected %v", e.created, token),
		}
	case e.owner == 0:
		return 0, &tree.RefusedError{
			Code: tree.NoNode, Verb: "check fence", Path: path, Detail: fmt.Sprintf("is %v and has no owner", e.kind),
		}
	}
	return e.owner, nil // an ephemeral never outlives its owner (I12 no orphans)
}
