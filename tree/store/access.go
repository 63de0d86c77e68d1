package store

import (
	"crypto/sha256"
	"encoding/binary"

	"holdfast/tree"
)

// interned is an access list that entries share (P2). Its list and content never change.
type interned struct {
	list tree.ACL
	// content is the list in bytes: equal lists have equal content. sum is its hash if it is large, as that of data.
	content string
	sum     *[sha256.Size]byte
	// uses counts the entries that have the list. Only the goroutine that writes the tree may use it.
	uses int
}

// lists are the access lists that entries have, by their content.
type lists map[string]*interned

// intern returns the shared copy of a list, or one to be shared once an entry has it; nil for nil.
func (l lists) intern(acl tree.ACL) *interned {
	if acl == nil {
		return nil
	}
	content := string(contentOf(acl))
	if shared := l[content]; shared != nil {
		return shared
	}
	return &interned{list: acl, content: content, sum: sumOf([]byte(content))}
}

// use counts an entry that has the list a from now on, and returns how much more memory the lists take.
func (l lists) use(a *interned) int64 {
	if a == nil {
		return 0
	}
	if a.uses++; a.uses > 1 {
		return 0
	}
	l[a.content] = a
	return a.kept()
}

// drop counts an entry that has the list a no longer, forgets a list that no entry has, and returns how much less
// memory the lists take.
func (l lists) drop(a *interned) int64 {
	if a == nil {
		return 0
	}
	if a.uses--; a.uses > 0 {
		return 0
	}
	delete(l, a.content)
	return a.kept()
}

// contentOf returns a list in bytes.
func contentOf(acl tree.ACL) []byte {
	b := binary.AppendUvarint(nil, uint64(len(acl)))
	for _, g := range acl {
		b = append(b, byte(g.Permissions))
		b = appendString(b, g.Scheme)
		b = appendString(b, g.ID)
	}
	return b
}

// own returns the access list that the entry at path has itself or inherits from the nearest entry above (P2). The root
// always has one.
func (r *Root) own(path string) *interned {
	for ; ; path = tree.Parent(path) {
		if e := r.get(keyOf(path)); e != nil && e.acl != nil {
			return e.acl
		}
	}
}

// permitted refuses principals to whom the entry at path does not grant what they want.
func (t *Tree) permitted(at At, path string, wanted tree.Permissions) *tree.RefusedError {
	if t.effective(path).Grants(wanted, at.Principals) {
		return nil
	}
	return &tree.RefusedError{Code: tree.NoPermission, Path: path, Detail: "needs " + wanted.String()}
}

// mayWrite is permitted for a change of the entry at path, which may be one that only Super changes (P3).
func (t *Tree) mayWrite(at At, path string, wanted tree.Permissions) *tree.RefusedError {
	if refused := t.mayWriteQuotas(at, path); refused != nil {
		return refused
	}
	return t.permitted(at, path, wanted)
}
