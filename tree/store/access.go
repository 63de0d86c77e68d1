package store

import (
	"crypto/sha256"
	"encoding/binary"

	"holdfast/tree"
)

// interned is an access list that entries share (P2 access lists). list and content never change.
type interned struct {
	list tree.ACL
	// content is the list in bytes: equal lists have equal content. sum is the hash of a large content, as for data.
	content string
	sum     *[sha256.Size]byte
	// uses counts the entries with the list. Only the goroutine that writes the tree may use it.
	uses int
}

// lists are the access lists of entries, by their content.
type lists map[string]*interned

// intern returns the shared copy of a list. For a list that no entry has, it returns a copy that [lists.use] will
// share; nil for nil.
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

// use counts one more entry with the list a, and returns the memory that the lists gain.
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

// drop counts one entry less with the list a, forgets a list without entries, and returns the memory that the lists
// free.
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

// contentOf returns the bytes of a list.
func contentOf(acl tree.ACL) []byte {
	b := binary.AppendUvarint(nil, uint64(len(acl)))
	for _, g := range acl {
		b = append(b, byte(g.Permissions))
		b = appendString(b, g.Scheme)
		b = appendString(b, g.ID)
	}
	return b
}

// own returns the access list of the entry at path: its own list, or the list of the nearest entry above that has one
// (P2). The root always has a list.
func (r *Root) own(path string) *interned {
	for ; ; path = tree.Parent(path) {
		if e := r.get(keyOf(path)); e != nil && e.acl != nil {
			return e.acl
		}
	}
}

// permitted returns a refusal unless the entry at path grants the principals the wanted permissions.
func (t *Tree) permitted(at At, path string, wanted tree.Permissions) *tree.RefusedError {
	if t.effective(path).Grants(wanted, at.Principals) {
		return nil
	}
	return &tree.RefusedError{Code: tree.NoPermission, Path: path, Detail: "needs " + wanted.String()}
}

// mayWrite is permitted for a change of the entry at path. It also refuses changes of quotas, as mayWriteQuotas does (P3
// quotas).
func (t *Tree) mayWrite(at At, path string, wanted tree.Permissions) *tree.RefusedError {
	if refused := t.mayWriteQuotas(at, path); refused != nil {
		return refused
	}
	return t.permitted(at, path, wanted)
}
