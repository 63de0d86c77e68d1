//go:build e2e

package zk

import (
	"fmt"
	"slices"
	"strings"

	"holdfast/zk/jute"
)

// kind says how a value of an answer is compared.
type kind int

const (
	same   kind = iota // the values are equal
	zxid               // each zxid of one system is one of the other, in the same order
	moment             // a time of the change with the zxid before it
	owner              // a session, or what stands for a kind of entry
)

// value is a part of an answer.
type value struct {
	name   string
	kind   kind
	text   string
	number int64
}

func (v value) String() string {
	if v.kind == same {
		return v.name + " " + v.text
	}
	return fmt.Sprintf("%s %#x", v.name, v.number)
}

// record reads an answer's record, and keeps what was read.
type record struct {
	*jute.Decoder
	all []value
}

func (r *record) same(name string, v any) {
	r.all = append(r.all, value{name: name, text: fmt.Sprint(v)})
}

func (r *record) long(name string, k kind) int64 {
	n := r.Long(name)
	r.all = append(r.all, value{name: name, kind: k, number: n})
	return n
}

func (r *record) stat() {
	r.long("czxid", zxid)
	modified := r.Long("mzxid")
	r.long("ctime", moment)
	r.all = append(r.all, value{name: "mzxid", kind: zxid, number: modified})
	r.long("mtime", moment)
	r.same("version", r.Int("version"))
	r.same("cversion", r.Int("cversion"))
	r.same("aversion", r.Int("aversion"))
	r.long("ephemeralOwner", owner)
	r.same("dataLength", r.Int("dataLength"))
	r.same("numChildren", r.Int("numChildren"))
	r.long("pzxid", zxid)
}

func (r *record) buffer(name string) {
	b := r.Buffer(name)
	r.same(name, fmt.Sprintf("%q null %v", b, b == nil))
}

// strings reads a list that has no order.
func (r *record) strings(name string) {
	all := r.Strings(name)
	slices.Sort(all)
	r.same(name, fmt.Sprintf("%q", all))
}

func (r *record) acls() {
	var all []string
	for range r.Int("acl") {
		all = append(all, fmt.Sprintf("%d %s:%s", r.Int("perms"), r.String("scheme"), r.String("id")))
	}
	r.same("acl", strings.Join(all, ", "))
}

// answer reads the record of an operation's answer.
func (r *record) answer(op jute.Op) {
	switch op { //nolint:exhaustive // the others have no record
	case jute.Create, jute.Sync:
		r.same("path", r.String("path"))
	case jute.Create2, jute.CreateContainer, jute.CreateTTL:
		r.same("path", r.String("path"))
		r.stat()
	case jute.Exists, jute.SetData, jute.SetACL:
		r.stat()
	case jute.GetData:
		r.buffer("data")
		r.stat()
	case jute.GetACL:
		r.acls()
		r.stat()
	case jute.GetChildren, jute.GetEphemerals:
		r.strings("children")
	case jute.GetChildren2:
		r.strings("children")
		r.stat()
	case jute.GetChildrenNumber:
		r.same("number", r.Int("number"))
	case jute.WhoAmI:
		r.who()
	case jute.Multi, jute.MultiRead:
		r.multi()
	default:
	}
	if r.Err() != nil {
		r.same("error", r.Err())
	}
	r.same("bytes behind", r.Left())
}

func (r *record) who() {
	var all []string
	for range r.Int("clientInfo") {
		all = append(all, r.String("scheme")+":"+r.String("user"))
	}
	slices.Sort(all)
	r.same("who", fmt.Sprintf("%q", all))
}

func (r *record) multi() {
	for i := 0; r.Err() == nil; i++ {
		op, done, code := jute.Op(r.Int("type")), r.Bool("done"), r.Int("err")
		r.same(fmt.Sprintf("result[%d]", i), fmt.Sprintf("%v done %v err %d", op, done, code))
		switch {
		case done:
			return
		case op == -1:
			r.same("code", r.Int("code"))
		case op == jute.SetData:
			r.stat()
		case op == jute.Create, op == jute.GetChildren, op == jute.Create2, op == jute.GetData:
			r.element(op)
		}
	}
}

func (r *record) element(op jute.Op) {
	switch op { //nolint:exhaustive // those of multi
	case jute.GetData:
		r.buffer("data")
		r.stat()
	case jute.GetChildren:
		r.strings("children")
	default:
		r.same("path", r.String("path"))
		if op == jute.Create2 {
			r.stat()
		}
	}
}
