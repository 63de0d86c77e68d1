package store_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"holdfast/tree"
	"holdfast/tree/store"
)

// plain is a tree as a map, which does everything the slow way: what a [store.Tree] must do.
type plain struct {
	nodes map[string]*node
	limit tree.Limits
}

type node struct {
	data                        []byte
	created, modified, children tree.Stamp
	creates, aclVersion         int64
	version                     int64
	owner                       uint64
	kind                        tree.Kind
	life, due                   int64
	acl                         tree.ACL
}

func newPlain(at store.At, limit tree.Limits) *plain {
	p := &plain{nodes: map[string]*node{}, limit: limit}
	for _, path := range []string{tree.Root, tree.ReservedPath, tree.QuotaPath} {
		if path != tree.Root {
			p.nodes[tree.Parent(path)].creates++
		}
		p.nodes[path] = &node{created: at.Stamp, modified: at.Stamp, children: at.Stamp, kind: tree.Persistent}
	}
	p.nodes[tree.Root].acl = tree.Open()
	return p
}

func (p *plain) clone() *plain {
	c := &plain{nodes: map[string]*node{}, limit: p.limit}
	for path, n := range p.nodes {
		one := *n
		c.nodes[path] = &one
	}
	return c
}

func (p *plain) childrenOf(path string) (names []string) {
	for _, one := range slices.Sorted(maps.Keys(p.nodes)) {
		if one != tree.Root && tree.Parent(one) == path {
			names = append(names, tree.Name(one))
		}
	}
	return names
}

func (p *plain) may(at store.At, path string, wanted tree.Permissions) bool {
	for ; ; path = tree.Parent(path) {
		if n := p.nodes[path]; n != nil && n.acl != nil {
			return n.acl.Grants(wanted, at.Principals)
		}
	}
}

// do carries out a transaction, and returns the code and the place of the first refusal.
func (p *plain) do(at store.At, x tree.Transaction) (code tree.Code, where int, deeds []string) {
	ops := x.Then
	for _, c := range x.If {
		if !p.may(at, c.Path, tree.Read) {
			return tree.NoPermission, -1, nil
		}
	}
	for _, c := range x.If {
		if !p.holds(c) {
			ops = x.Else
		}
	}
	try := p.clone()
	for i, op := range ops {
		did, code := try.one(at, op)
		if code != 0 {
			return code, i, nil
		}
		deeds = append(deeds, did...)
	}
	p.nodes = try.nodes
	return 0, 0, deeds
}

func (p *plain) holds(c tree.Condition) bool {
	n := p.nodes[c.Path]
	var has uint64
	switch {
	case n == nil && c.Property != tree.Exists:
		return false
	case n == nil:
	case c.Property == tree.Exists:
		has = 1
	case c.Property == tree.DataVersion:
		has = uint64(n.version)
	case c.Property == tree.OwnerID:
		has = n.owner
	case c.Property == tree.CreatedStamp:
		has = uint64(n.created)
	case c.Property == tree.ModifiedStamp:
		has = uint64(n.modified)
	case c.Property == tree.ChildCount:
		has = uint64(len(p.childrenOf(c.Path)))
	}
	return map[tree.Comparison]bool{
		tree.Equal: has == c.Value, tree.NotEqual: has != c.Value, tree.Less: has < c.Value, tree.Greater: has > c.Value,
	}[c.Is]
}

// one carries out an operation. A deed is "+path", "-path" or "=path".
func (p *plain) one(at store.At, op tree.Op) (deeds []string, code tree.Code) {
	n := p.nodes[op.Target()]
	if c, ok := op.(tree.Create); ok {
		return p.create(at, c)
	}
	if check, ok := op.(tree.Check); ok && !p.may(at, check.Path, tree.Read) {
		return nil, tree.NoPermission
	}
	if n == nil {
		return nil, tree.NoNode
	}
	stale := func(wanted, has int64) bool { return wanted != tree.Any && wanted != has }
	path := op.Target()
	if path == tree.Root || path == tree.ReservedPath || path == tree.QuotaPath {
		switch op.(type) {
		case tree.Delete, tree.DeleteTree:
			return nil, tree.Reserved
		}
	}
	_, isCheck := op.(tree.Check)
	if acl, ok := op.(tree.SetACL); ok && path == tree.Root && acl.ACL == nil {
		return nil, tree.Reserved
	}
	if !isCheck && p.guarded(at, path) {
		return nil, tree.NoPermission
	}
	switch op := op.(type) {
	case tree.Set:
		switch {
		case !p.may(at, path, tree.Write):
			return nil, tree.NoPermission
		case stale(op.Version, n.version):
			return nil, tree.BadVersion
		case p.exceeds(path, 0, len(op.Data)-len(n.data)):
			return nil, tree.OverQuota
		case badLimits(path, op.Data):
			return nil, tree.Reserved
		}
		n.data, n.modified = op.Data, at.Stamp
		n.version++
		if n.kind == tree.Expiring {
			n.due = at.L.Milliseconds() + n.life
		}
		return []string{"=" + path}, 0
	case tree.SetACL:
		switch {
		case !p.may(at, path, tree.Admin):
			return nil, tree.NoPermission
		case stale(op.Version, n.aclVersion):
			return nil, tree.BadVersion
		}
		n.acl = op.ACL
		n.aclVersion++
		return nil, 0
	case tree.Check:
		if stale(op.Version, n.version) {
			return nil, tree.BadVersion
		}
		return nil, 0
	case tree.Delete:
		switch {
		case !p.may(at, tree.Parent(path), tree.DeleteChild):
			return nil, tree.NoPermission
		case stale(op.Version, n.version):
			return nil, tree.BadVersion
		case len(p.childrenOf(path)) > 0:
			return nil, tree.NotEmpty
		}
		p.die(at, path)
		return []string{"-" + path}, 0
	case tree.DeleteTree:
		var gone []string
		for one := range p.nodes {
			if one == path || tree.Below(one, path) {
				gone = append(gone, one)
			}
		}
		for _, one := range gone {
			if !p.may(at, tree.Parent(one), tree.DeleteChild) {
				return nil, tree.NoPermission
			}
		}
		slices.SortFunc(gone, func(a, b string) int {
			return strings.Compare(fmt.Sprintf("%03d%s", tree.Depth(b), b), fmt.Sprintf("%03d%s", tree.Depth(a), a))
		})
		for _, one := range gone {
			p.die(at, one)
			deeds = append(deeds, "-"+one)
		}
		return deeds, 0
	}
	panic(op)
}

func (p *plain) create(at store.At, c tree.Create) (deeds []string, code tree.Code) {
	path := c.Path
	above := path[:strings.LastIndexByte(path, '/')]
	if above == "" {
		above = tree.Root
	}
	if path == tree.Root && !c.Sequential {
		return nil, tree.NodeExists
	}
	if p.nodes[above] == nil && c.Parents {
		made, code := p.create(at, tree.Create{Path: above, Kind: tree.Persistent, Parents: true})
		if code != 0 {
			return nil, code
		}
		deeds = made
	}
	parent := p.nodes[above]
	switch {
	case parent == nil:
		return nil, tree.NoParent
	case parent.kind == tree.Ephemeral, parent.kind == tree.InLockDelay:
		return nil, tree.EphemeralParent
	case len(p.childrenOf(above)) >= p.limit.Children:
		return nil, tree.OverLimit
	case !p.may(at, above, tree.CreateChild):
		return nil, tree.NoPermission
	}
	if c.Sequential {
		path += fmt.Sprintf("%010d", parent.creates)
	}
	owned := 0
	for _, n := range p.nodes {
		if n.owner == at.Session {
			owned++
		}
	}
	switch {
	case p.nodes[path] != nil:
		return nil, tree.NodeExists
	case c.Kind == tree.Ephemeral && at.Session == 0:
		return nil, tree.Reserved
	case c.Kind == tree.Ephemeral && owned >= p.limit.Ephemerals:
		return nil, tree.OverLimit
	case p.guarded(at, path):
		return nil, tree.NoPermission
	case p.exceeds(path, 1, len(c.Data)):
		return nil, tree.OverQuota
	case badLimits(path, c.Data):
		return nil, tree.Reserved
	}
	n := &node{data: c.Data, created: at.Stamp, modified: at.Stamp, children: at.Stamp, kind: c.Kind, acl: c.ACL}
	switch c.Kind {
	case tree.Ephemeral:
		n.owner, n.life = at.Session, c.LockDelay.Milliseconds()
	case tree.Expiring:
		n.life = c.TTL.Milliseconds()
		n.due = at.L.Milliseconds() + n.life
	case tree.Container:
		n.due = at.L.Milliseconds() + 5*60*1000
	case tree.Persistent, tree.InLockDelay:
	}
	p.nodes[path] = n
	parent.creates++
	parent.children = at.Stamp
	return append(deeds, "+"+path), 0
}

func (p *plain) die(at store.At, path string) {
	delete(p.nodes, path)
	above := tree.Parent(path)
	parent := p.nodes[above]
	parent.children = at.Stamp
	if parent.kind == tree.Container && len(p.childrenOf(above)) == 0 {
		parent.due = at.L.Milliseconds() + 60*1000
	}
}
