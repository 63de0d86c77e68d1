package form

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"holdfast/proto/fields"
	"holdfast/tree"
)

// malformed is the error for bytes that no release writes.
func malformed(what string) error {
	return &tree.FieldError{Field: what, Why: "is not in the form that this release writes"}
}

// outOf is the error for a field out of its bounds.
func outOf(field string, has any, bounds string) error {
	return &tree.FieldError{Field: field, Why: fmt.Sprintf("is %v: must be %s", has, bounds)}
}

// text appends a string, unless it is empty.
func text(b []byte, number protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), v)
}

// data appends bytes. Null differs from empty: null has no field.
func data(b []byte, number protowire.Number, v []byte) []byte {
	if v == nil {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
}

// flag appends a bool, unless it is false.
func flag(b []byte, number protowire.Number, v bool) []byte {
	return fields.Varint(b, number, protowire.EncodeBool(v))
}

// readText reads a string.
func readText(r *fields.Reader, number protowire.Number) string {
	b, _ := r.Bytes(number)
	return string(b)
}

// readData reads bytes that may be null.
func readData(r *fields.Reader, number protowire.Number) []byte {
	return slices.Clone(sharedData(r, number))
}

// sharedData is readData without a copy: the bytes are the input's.
func sharedData(r *fields.Reader, number protowire.Number) []byte {
	b, ok := r.Bytes(number)
	switch {
	case !ok:
		return nil
	case len(b) == 0:
		return []byte{}
	}
	return b
}

// readByte reads a number of at most 8 bits.
func readByte(r *fields.Reader, number protowire.Number) uint8 {
	v := r.Varint(number)
	if v > 1<<8-1 {
		r.Refuse()
	}
	return uint8(v)
}

// readInt reads a number that fits into an int64.
func readInt(r *fields.Reader, number protowire.Number) int64 {
	v := r.Varint(number)
	if v > 1<<63-1 {
		r.Refuse()
	}
	return int64(v)
}

// count returns the number of consecutive fields with the given number.
func count(r *fields.Reader, number protowire.Number) (n int) {
	rest := *r
	for _, ok := rest.Bytes(number); ok; _, ok = rest.Bytes(number) {
		n++
	}
	return n
}

// appendACL appends an access list; nothing for nil.
func appendACL(b []byte, number protowire.Number, acl tree.ACL) []byte {
	if acl == nil {
		return b
	}
	b, whole := fields.Begin(b, number)
	for _, g := range acl {
		var at int
		b, at = fields.Begin(b, 1)
		b = fields.Varint(b, 1, uint64(g.Permissions))
		b = text(b, 2, g.Scheme)
		b = text(b, 3, g.ID)
		b = fields.End(b, at)
	}
	return fields.End(b, whole)
}

// readACL reads an access list; nil if there is none.
func readACL(r *fields.Reader, number protowire.Number) tree.ACL {
	m, ok := r.Message(number)
	if !ok {
		return nil
	}
	n := count(&m, 1)
	if n > tree.MaxGrants {
		r.Refuse()
		return nil
	}
	acl := make(tree.ACL, 0, n)
	for g, more := m.Message(1); more; g, more = m.Message(1) {
		acl = append(acl, tree.Grant{
			Permissions: tree.Permissions(readByte(&g, 1)), Scheme: readText(&g, 2), ID: readText(&g, 3),
		})
		if !g.End() {
			r.Refuse()
		}
	}
	if !m.End() {
		r.Refuse()
	}
	return acl
}

// appendPrincipals appends principals as repeated fields.
func appendPrincipals(b []byte, number protowire.Number, all []tree.Principal) []byte {
	for _, p := range all {
		var at int
		b, at = fields.Begin(b, number)
		b = text(b, 1, p.Scheme)
		b = text(b, 2, p.ID)
		b = fields.End(b, at)
	}
	return b
}

func readPrincipals(r *fields.Reader, number protowire.Number) []tree.Principal {
	n := count(r, number)
	if n == 0 {
		return nil
	}
	if n > tree.MaxPrincipals {
		r.Refuse()
		return nil
	}
	all := make([]tree.Principal, 0, n)
	for m, ok := r.Message(number); ok; m, ok = r.Message(number) {
		all = append(all, tree.Principal{Scheme: readText(&m, 1), ID: readText(&m, 2)})
		if !m.End() {
			r.Refuse()
		}
	}
	return all
}
