package operations

import (
	"slices"
	"strings"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/zk/jute"
	"holdfast/zk/queue"
)

// change is a write's operation on the tree, or the reason why there is none.
type change struct {
	op tree.Op
	// code is not OK if the front end refuses the write. probe, if any, is an operation that ZooKeeper checks before
	// that.
	code  jute.Code
	probe tree.Op
}

// changeOf returns the change of an operation without a probe.
func changeOf(op tree.Op) change {
	if tree.CheckOp(op) != nil {
		return change{code: jute.BadArguments}
	}
	return change{op: op, code: reserved(op)}
}

func (h *Handler) setData(_ jute.Op, b jute.SetDataRequest) change {
	return changeOf(tree.Set{Path: b.Path, Data: b.Data, Version: versionOf(b.Version)})
}

func (h *Handler) setACL(_ jute.Op, b jute.SetACLRequest) change {
	if tree.CheckPath(b.Path) != nil {
		return change{code: jute.BadArguments}
	}
	acl, code := h.aclOf(b.ACL)
	if code != jute.OK {
		return change{code: code}
	}
	return changeOf(tree.SetACL{Path: b.Path, ACL: acl, Version: versionOf(b.Version)})
}

func (h *Handler) check(_ jute.Op, b jute.VersionRequest) change {
	return changeOf(tree.Check{Path: b.Path, Version: versionOf(b.Version)})
}

func (h *Handler) delete(_ jute.Op, b jute.VersionRequest) change {
	if tree.CheckPath(b.Path) != nil && hasName(b.Path) {
		return change{code: jute.NoNode}
	}
	return changeOf(tree.Delete{Path: b.Path, Version: versionOf(b.Version)})
}

// create makes a create of ZooKeeper's flags (N-20). ZooKeeper checks the flags, then the access list, then the
// parent, which the probe asks for, and then the path.
func (h *Handler) create(op jute.Op, b jute.CreateRequest) change {
	made := tree.Create{Path: b.Path, Data: b.Data, Kind: tree.Persistent}
	switch b.Flags {
	case jute.Persistent:
	case jute.Ephemeral:
		made.Kind = tree.Ephemeral
	case jute.PersistentSequential:
		made.Sequential = true
	case jute.EphemeralSequential:
		made.Kind, made.Sequential = tree.Ephemeral, true
	case jute.Container:
		made.Kind = tree.Container
	case jute.PersistentTTL, jute.PersistentSequentialTTL:
		made.Kind, made.Sequential = tree.Expiring, b.Flags == jute.PersistentSequentialTTL
		if b.TTL < 1 || b.TTL > tree.MaxTTL.Milliseconds() {
			return change{code: jute.BadArguments}
		}
		made.TTL = time.Duration(b.TTL) * time.Millisecond
	default:
		return change{code: jute.BadArguments}
	}
	if (op == jute.CreateTTL) != (made.Kind == tree.Expiring) || !hasName(b.Path) {
		return change{code: jute.BadArguments}
	}
	var code jute.Code
	if made.ACL, code = h.aclOf(b.ACL); code != jute.OK {
		return change{code: code}
	}
	if tree.CheckOp(made) != nil {
		return wrongPath(b.Path)
	}
	return changeOf(made)
}

// wrongPath returns the change of a create with an invalid path. ZooKeeper checks the parent first.
func wrongPath(path string) change {
	parent := path[:strings.LastIndexByte(path, '/')]
	probe := tree.Create{Path: parent + "/", Sequential: true, Kind: tree.Persistent}
	switch {
	case parent == "/": // of "//a": the root has two names in ZooKeeper
		probe.Path = "/"
	case tree.CheckOp(probe) != nil:
		return change{code: jute.NoNode}
	}
	return change{code: jute.BadArguments, probe: probe}
}

// hasName reports whether ZooKeeper searches for an entry of that path, though an invalid path has no entry.
func hasName(path string) bool { return strings.Contains(path, "/") && !strings.Contains(path, "\x00") }

// versionOf returns the expected version. A client sees the low 32 bits of a version, which are negative from 2^31 on,
// and sends them back. Without versionOf, no client could change an entry by its version after so many changes.
func versionOf(v int32) int64 {
	if v < tree.Any {
		return int64(uint32(v)) //nolint:gosec // two's complement
	}
	return int64(v)
}

// aclOf returns an access list. In ZooKeeper a request's list is never empty, and each grant names a possible
// principal. Unknown permissions are left out.
func (h *Handler) aclOf(all []jute.ACL) (tree.ACL, jute.Code) {
	if len(all) == 0 {
		return nil, jute.InvalidACL
	}
	acl := make(tree.ACL, len(all))
	for i, a := range all {
		perms := tree.Permissions(a.Perms) & tree.All //nolint:gosec // only the bits matter
		acl[i] = tree.Grant{Permissions: perms, Scheme: a.Scheme, ID: a.ID}
		if !grantable(acl[i]) {
			return nil, jute.InvalidACL
		}
	}
	acl, err := acl.Expand(h.Principals())
	if err != nil {
		return nil, jute.InvalidACL
	}
	acl = distinct(acl)
	if acl.Check() != nil {
		return nil, jute.InvalidACL
	}
	return acl, jute.OK
}

// grantable reports whether a grant names a possible principal. The hash of a digest has no colon.
func grantable(g tree.Grant) bool {
	if g.Scheme == tree.Digest && strings.Count(g.ID, ":") != 1 {
		return false
	}
	g.Permissions = tree.All
	return g.Scheme == tree.Auth || (tree.ACL{g}).Check() == nil
}

// distinct returns a list without duplicates and without grants of nothing.
func distinct(acl tree.ACL) tree.ACL {
	unique := make(tree.ACL, 0, len(acl))
	for _, g := range acl {
		if g.Permissions != 0 && !slices.Contains(unique, g) {
			unique = append(unique, g)
		}
	}
	return unique
}

// write makes a request of one write.
func (h *Handler) write(r *queue.Request) {
	row := h.table[r.Op]
	var s script
	s.add(row.change(h, r.Op, r.Body))
	if s.code != jute.OK && len(s.ops) == 1 { // the state decides nothing
		h.refuse(r, s.code)
		return
	}
	h.transact(r, s.ops, func(a *session.TreeAnswer, o *tree.Outcome) *jute.Encoder {
		if o.Refused != nil {
			_, code := s.refusal(o)
			return replyTo(r, a, code)
		}
		e := replyTo(r, a, jute.OK)
		row.result(e, &o.Ops[0])
		return e
	})
}

// multi makes a request of several writes, all or none.
func (h *Handler) multi(r *queue.Request) {
	b := r.Body.(jute.MultiRequest) //nolint:errcheck,forcetypeassert // the row's record
	for _, op := range b.Ops {
		if h.table[op.Op].multi == 0 {
			h.refuse(r, jute.MarshallingError)
			return
		}
	}
	if len(b.Ops) == 0 {
		h.answerEmptyMulti(r)
		return
	}
	var s script
	for _, op := range b.Ops {
		if !s.add(h.table[op.Op].change(h, op.Op, op.Body)) {
			break
		}
	}
	h.transact(r, s.ops, func(a *session.TreeAnswer, o *tree.Outcome) *jute.Encoder {
		e := replyTo(r, a, jute.OK)
		if o.Refused != nil {
			at, code := s.refusal(o)
			refuseMulti(e, len(b.Ops), at, code)
			return e
		}
		for i, op := range b.Ops {
			shown := h.table[op.Op].multi
			e.MultiHeader(jute.MultiHeader{Op: shown})
			h.table[shown].result(e, &o.Ops[i])
		}
		e.MultiEnd()
		return e
	})
}

// answerEmptyMulti answers a multi or multiRead without elements.
func (h *Handler) answerEmptyMulti(r *queue.Request) {
	h.queue.AnswerInTurn(r, func(zxid int64) *jute.Encoder {
		e := jute.Reply(r.Xid, zxid, jute.OK)
		e.MultiEnd()
		return e
	})
}

// refuseMulti appends the elements of a multi of n operations, of which the one at a place was refused (N-32). The
// reply's header has no error.
func refuseMulti(e *jute.Encoder, n, at int, code jute.Code) {
	for i := range n {
		switch {
		case i < at:
			e.MultiError(jute.OK)
		case i == at:
			e.MultiError(code)
		default:
			e.MultiError(jute.RuntimeInconsistent)
		}
	}
	e.MultiEnd()
}

// transact makes a request of a transaction.
func (h *Handler) transact(
	r *queue.Request, ops []tree.Op, reply func(a *session.TreeAnswer, o *tree.Outcome) *jute.Encoder,
) {
	x := tree.Transaction{Then: ops}
	if x.Check() != nil || x.CheckWeight(tree.MaxWeight) != nil {
		h.refuse(r, jute.BadArguments)
		return
	}
	r.Write = &x
	r.Reply = func(a *session.TreeAnswer) (*jute.Encoder, *queue.Step, error) {
		switch {
		case a.Err != nil:
			return h.unwritten(r, a)
		case a.Wrote == nil || a.Wrote.Void:
			return nil, nil, session.ErrOutcomeUnknown
		}
		return reply(a, &a.Wrote.Outcome), nil, nil
	}
}

// unwritten answers a write that has no result. A read-only node refuses the writes of local sessions (Z9 read-only),
// whose clients may continue. Any other error ends the connection: the outcome of the write's number is unknown (Z6
// closing).
func (h *Handler) unwritten(r *queue.Request, a *session.TreeAnswer) (*jute.Encoder, *queue.Step, error) {
	code, ok := codeOf(a.Err)
	if !ok || code != jute.NotReadOnly || !h.token.Local {
		return nil, nil, a.Err
	}
	return replyTo(r, a, code), nil, nil
}

// script is the transaction of one write, or of a multi's writes. ZooKeeper checks operations in their order, and the
// first failure decides (N-32). So an operation that the front end refuses becomes an operation that always fails in
// the state, and counts only if the earlier operations hold.
type script struct {
	ops []tree.Op
	// at is the place of the operation that the front end refuses with code; no operation follows it.
	at   int
	code jute.Code
}

// noVersion is a version that no entry has.
const noVersion = 1 << 62

// add appends a change. It reports whether another change may follow.
func (s *script) add(c change) bool {
	if c.code == jute.OK {
		s.ops = append(s.ops, c.op)
		return true
	}
	s.at, s.code = len(s.ops), c.code
	if c.probe != nil && len(s.ops)+1 < tree.MaxOps { // without capacity for both, the front end's code is the answer
		s.ops = append(s.ops, c.probe)
	}
	s.ops = append(s.ops, tree.Check{Path: tree.Root, Version: noVersion})
	return false
}

// refusal returns which operation was refused, and the code of its answer. The code of a probe comes first if
// ZooKeeper checks that before the front end's reason.
func (s *script) refusal(o *tree.Outcome) (at int, code jute.Code) {
	code = codes[o.Refused.Code]
	if s.code == jute.OK || o.At < s.at {
		return o.At, code
	}
	probed := o.At == s.at && len(s.ops) > s.at+1
	if probed && (code == jute.NoNode || code == jute.NoAuth) {
		return s.at, code
	}
	return s.at, s.code
}
