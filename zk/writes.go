package zk

import (
	"slices"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// prepareWrite makes a request of one write.
func prepareWrite(c *conn, r *request) {
	op, code := c.opOf(&r.Request)
	if code != jute.OK {
		c.refuse(r, code)
		return
	}
	c.transact(r, tree.Transaction{Then: []tree.Op{op}}, func(stamp int64, o tree.Outcome) *jute.Encoder {
		if o.Refused != nil {
			return jute.Reply(r.Xid, stamp, codes[o.Refused.Code])
		}
		e := jute.Reply(r.Xid, stamp, jute.OK)
		appendOutcome(e, r.Op, o.Ops[0])
		return e
	})
}

// transact makes a request of a transaction.
func (c *conn) transact(r *request, x tree.Transaction, reply func(stamp int64, o tree.Outcome) *jute.Encoder) {
	if x.Check() != nil {
		c.refuse(r, jute.BadArguments)
		return
	}
	r.write = &x
	r.begin = c.line.write
	r.answer = func(r *request, a *session.TreeAnswer) (*jute.Encoder, bool, error) {
		switch {
		case a.Err != nil:
			return c.unwritten(r, a)
		case a.Wrote == nil || a.Wrote.Void:
			return nil, false, session.ErrOutcomeUnknown
		}
		return reply(int64(a.Stamp), a.Wrote.Outcome), false, nil //nolint:gosec // stamps are positive
	}
}

// unwritten answers a write that has no result. A local session's writes are refused by a read-only node (Z9); its
// client may go on. Anything else ends the connection: the write's number is open (Z6).
func (c *conn) unwritten(r *request, a *session.TreeAnswer) (*jute.Encoder, bool, error) {
	code, ok := codeOf(a.Err)
	if !ok || code != jute.NotReadOnly || !c.token.Local {
		return nil, false, a.Err
	}
	c.line.number--                                                        // nothing was asked of anybody
	return jute.Reply(r.Xid, int64(a.Stamp), jute.NotReadOnly), false, nil //nolint:gosec // stamps are positive
}

// appendOutcome appends the record of an operation that took effect.
func appendOutcome(e *jute.Encoder, op jute.Op, o tree.OpOutcome) {
	switch op { //nolint:exhaustive // the others have no record
	case jute.Create:
		e.String(o.Path)
	case jute.Create2, jute.CreateContainer, jute.CreateTTL:
		e.String(o.Path)
		e.Stat(statOf(o.Stat))
	case jute.SetData, jute.SetACL:
		e.Stat(statOf(o.Stat))
	default:
	}
}

// prepareMulti makes a request of several operations, all or none.
func prepareMulti(c *conn, r *request) {
	b := r.Body.(jute.MultiRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	if !b.Of(jute.Multi) {
		c.refuse(r, jute.MarshallingError)
		return
	}
	ops := make([]tree.Op, len(b.Ops))
	for i := range b.Ops {
		op, code := c.opOf(&b.Ops[i])
		if code != jute.OK {
			c.inTurn(r, func(zxid int64) *jute.Encoder { return refusedMulti(r.Xid, zxid, len(b.Ops), i, code) })
			return
		}
		ops[i] = op
	}
	if len(ops) == 0 {
		c.inTurn(r, func(zxid int64) *jute.Encoder {
			e := jute.Reply(r.Xid, zxid, jute.OK)
			e.MultiEnd()
			return e
		})
		return
	}
	c.transact(r, tree.Transaction{Then: ops}, func(stamp int64, o tree.Outcome) *jute.Encoder {
		if o.Refused != nil {
			return refusedMulti(r.Xid, stamp, len(ops), o.At, codes[o.Refused.Code])
		}
		e := jute.Reply(r.Xid, stamp, jute.OK)
		for i, op := range b.Ops {
			e.MultiHeader(jute.MultiHeader{Op: shownOp(op.Op)})
			appendOutcome(e, op.Op, o.Ops[i])
		}
		e.MultiEnd()
		return e
	})
}

// shownOp returns the operation that a multi's reply names: all creates that tell a stat are create2 (N-31).
func shownOp(op jute.Op) jute.Op {
	if op == jute.CreateContainer || op == jute.CreateTTL {
		return jute.Create2
	}
	return op
}

// refusedMulti returns the reply to a multi of n operations of which the one at a place was refused (N-32). Its header
// has no error.
func refusedMulti(xid int32, zxid int64, n, at int, code jute.Code) *jute.Encoder {
	e := jute.Reply(xid, zxid, jute.OK)
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
	return e
}

// opOf returns the operation of a write, or why it cannot be one.
func (c *conn) opOf(r *jute.Request) (tree.Op, jute.Code) {
	var op tree.Op
	switch b := r.Body.(type) {
	case jute.CreateRequest:
		return c.createOf(r.Op, b)
	case jute.SetDataRequest:
		op = tree.Set{Path: b.Path, Data: b.Data, Version: versionOf(b.Version)}
	case jute.SetACLRequest:
		acl, code := c.aclOf(b.ACL)
		if code != jute.OK {
			return nil, code
		}
		op = tree.SetACL{Path: b.Path, ACL: acl, Version: versionOf(b.Version)}
	case jute.VersionRequest:
		if op = (tree.Delete{Path: b.Path, Version: versionOf(b.Version)}); r.Op == jute.Check {
			op = tree.Check{Path: b.Path, Version: versionOf(b.Version)}
		}
	default:
		return nil, jute.BadArguments
	}
	if tree.CheckOp(op) != nil {
		return nil, jute.BadArguments
	}
	return op, jute.OK
}

// versionOf returns the version that is expected. ZooKeeper's numbers have 32 bits, and any negative one matches none
// but -1.
func versionOf(v int32) int64 { return int64(v) }

// createOf returns a create. ZooKeeper's flags say its kind (N-20).
func (c *conn) createOf(op jute.Op, b jute.CreateRequest) (tree.Op, jute.Code) {
	create := tree.Create{Path: b.Path, Data: b.Data, Kind: tree.Persistent}
	switch b.Flags {
	case jute.Persistent:
	case jute.Ephemeral:
		create.Kind = tree.Ephemeral
	case jute.PersistentSequential:
		create.Sequential = true
	case jute.EphemeralSequential:
		create.Kind, create.Sequential = tree.Ephemeral, true
	case jute.Container:
		create.Kind = tree.Container
	case jute.PersistentTTL, jute.PersistentSequentialTTL:
		create.Kind, create.Sequential = tree.Expiring, b.Flags == jute.PersistentSequentialTTL
		if b.TTL < 1 || b.TTL > tree.MaxTTL.Milliseconds() {
			return nil, jute.BadArguments
		}
		create.TTL = time.Duration(b.TTL) * time.Millisecond
	default:
		return nil, jute.BadArguments
	}
	if (op == jute.CreateTTL) != (create.Kind == tree.Expiring) {
		return nil, jute.BadArguments
	}
	var code jute.Code
	if create.ACL, code = c.aclOf(b.ACL); code != jute.OK {
		return nil, code
	}
	if tree.CheckOp(create) != nil {
		return nil, jute.BadArguments
	}
	return create, jute.OK
}

// aclOf returns an access list. A list is never empty in ZooKeeper, and names only who can be somebody.
func (c *conn) aclOf(all []jute.ACL) (tree.ACL, jute.Code) {
	if len(all) == 0 {
		return nil, jute.InvalidACL
	}
	acl := make(tree.ACL, len(all))
	for i, a := range all {
		if a.Perms < 0 || a.Perms > int32(tree.All) {
			return nil, jute.InvalidACL
		}
		acl[i] = tree.Grant{Permissions: tree.Permissions(a.Perms), Scheme: a.Scheme, ID: a.ID} //nolint:gosec // in bounds
	}
	acl, err := acl.Expand(c.who())
	if err != nil || acl.Check() != nil {
		return nil, jute.InvalidACL
	}
	return distinct(acl), jute.OK
}

// distinct returns a list without the grants that it has twice.
func distinct(acl tree.ACL) tree.ACL {
	kept := make(tree.ACL, 0, len(acl))
	for _, g := range acl {
		if !slices.Contains(kept, g) {
			kept = append(kept, g)
		}
	}
	return kept
}
