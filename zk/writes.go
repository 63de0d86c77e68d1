package zk

import (
	"slices"
	"strings"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// prepareWrite makes a request of one write.
func prepareWrite(c *conn, r *request) {
	var asked script
	asked.add(c, &r.Request)
	if asked.code != jute.OK && len(asked.ops) == 1 { // the state decides nothing
		c.refuse(r, asked.code)
		return
	}
	c.transact(r, tree.Transaction{Then: asked.ops}, func(stamp int64, o tree.Outcome) *jute.Encoder {
		if o.Refused != nil {
			_, code := asked.refusal(o)
			return jute.Reply(r.Xid, stamp, code)
		}
		e := jute.Reply(r.Xid, stamp, jute.OK)
		appendOutcome(e, r.Op, o.Ops[0])
		return e
	})
}

// script is what the state is asked for one write, or for those of a multi. ZooKeeper judges operations in their
// order, and the first that fails decides (N-32). So what the front end refuses by itself is put to the state as an
// operation that always fails, and counts only if those before it hold.
type script struct {
	ops []tree.Op
	// at is the place of the operation that the front end refuses with code; nothing stands behind it.
	at   int
	code jute.Code
}

// noVersion is the version of no entry.
const noVersion = 1 << 62

// add appends an operation. It reports whether another one may follow.
func (s *script) add(c *conn, r *jute.Request) bool {
	op, probe, code := c.opOf(r)
	if code == jute.OK {
		s.ops = append(s.ops, op)
		return true
	}
	s.at, s.code = len(s.ops), code
	if probe != nil && len(s.ops)+1 < tree.MaxOps { // without room for both, what the front end refuses is told
		s.ops = append(s.ops, probe)
	}
	s.ops = append(s.ops, tree.Check{Path: tree.Root, Version: noVersion})
	return false
}

// refusal returns which operation was refused, and the code that it is answered with. A probe is refused for what
// ZooKeeper judges before it looks at what the front end has refused.
func (s *script) refusal(o tree.Outcome) (at int, code jute.Code) {
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

// transact makes a request of a transaction.
func (c *conn) transact(r *request, x tree.Transaction, reply func(stamp int64, o tree.Outcome) *jute.Encoder) {
	if x.Check() != nil || x.CheckWeight(tree.MaxWeight) != nil {
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
	// Nothing was asked of anybody, and nothing is under way that has a higher number.
	c.line.number--
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
	var asked script
	for i := range b.Ops {
		if !asked.add(c, &b.Ops[i]) {
			break
		}
	}
	if len(b.Ops) == 0 {
		c.inTurn(r, func(zxid int64) *jute.Encoder {
			e := jute.Reply(r.Xid, zxid, jute.OK)
			e.MultiEnd()
			return e
		})
		return
	}
	c.transact(r, tree.Transaction{Then: asked.ops}, func(stamp int64, o tree.Outcome) *jute.Encoder {
		if o.Refused != nil {
			at, code := asked.refusal(o)
			return refusedMulti(r.Xid, stamp, len(b.Ops), at, code)
		}
		e := jute.Reply(r.Xid, stamp, jute.OK)
		for i, op := range b.Ops {
			e.MultiHeader(jute.MultiHeader{Op: shownOp(op.Op)})
			appendOutcome(e, shownOp(op.Op), o.Ops[i])
		}
		e.MultiEnd()
		return e
	})
}

// shownOp returns the operation that a multi's reply names. Only creates of containers and expiring entries tell a
// stat, as create2 (N-31): ZooKeeper takes a create2 in a multi for a create.
func shownOp(op jute.Op) jute.Op {
	switch op { //nolint:exhaustive // the others are shown as they are
	case jute.CreateContainer, jute.CreateTTL:
		return jute.Create2
	case jute.Create2:
		return jute.Create
	default:
		return op
	}
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

// opOf returns the operation of a write, or why it cannot be one. With a probe, the state is asked that first.
func (c *conn) opOf(r *jute.Request) (op, probe tree.Op, code jute.Code) {
	switch b := r.Body.(type) {
	case jute.CreateRequest:
		return c.createOf(r.Op, b)
	case jute.SetDataRequest:
		op = tree.Set{Path: b.Path, Data: b.Data, Version: versionOf(b.Version)}
	case jute.SetACLRequest:
		if tree.CheckPath(b.Path) != nil {
			return nil, nil, jute.BadArguments
		}
		acl, code := c.aclOf(b.ACL)
		if code != jute.OK {
			return nil, nil, code
		}
		op = tree.SetACL{Path: b.Path, ACL: acl, Version: versionOf(b.Version)}
	case jute.VersionRequest:
		if r.Op == jute.Check {
			op = tree.Check{Path: b.Path, Version: versionOf(b.Version)}
			break
		}
		op = tree.Delete{Path: b.Path, Version: versionOf(b.Version)}
		if tree.CheckPath(b.Path) != nil && named(b.Path) {
			return nil, nil, jute.NoNode
		}
	default:
		return nil, nil, jute.BadArguments
	}
	if tree.CheckOp(op) != nil {
		return nil, nil, jute.BadArguments
	}
	return op, nil, guarded(op)
}

// named reports whether ZooKeeper looks for an entry of that path, though there can be none if the path is not valid.
func named(path string) bool { return strings.Contains(path, "/") && !strings.Contains(path, "\x00") }

// versionOf returns the version that is expected. A client is shown 32 bits of it, which are negative from 2^31 on, and
// names those again. Without: no client changes an entry by its version any more once it has changed so often.
func versionOf(v int32) int64 {
	if v < tree.Any {
		return int64(uint32(v)) //nolint:gosec // two's complement
	}
	return int64(v)
}

// createOf returns a create. ZooKeeper's flags say its kind (N-20). It judges the flags, then the access list, then the
// parent, for which the probe is, and then the path.
func (c *conn) createOf(op jute.Op, b jute.CreateRequest) (create, probe tree.Op, code jute.Code) {
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
			return nil, nil, jute.BadArguments
		}
		made.TTL = time.Duration(b.TTL) * time.Millisecond
	default:
		return nil, nil, jute.BadArguments
	}
	if (op == jute.CreateTTL) != (made.Kind == tree.Expiring) || !named(b.Path) {
		return nil, nil, jute.BadArguments
	}
	if made.ACL, code = c.aclOf(b.ACL); code != jute.OK {
		return nil, nil, code
	}
	if tree.CheckOp(made) != nil {
		parent := b.Path[:strings.LastIndexByte(b.Path, '/')]
		probe := tree.Create{Path: parent + "/", Sequential: true, Kind: tree.Persistent}
		switch {
		case parent == "/": // of "//a": the root has two names in ZooKeeper
			probe.Path = "/"
		case tree.CheckOp(probe) != nil:
			return nil, nil, jute.NoNode
		}
		return nil, probe, jute.BadArguments
	}
	return made, nil, guarded(made)
}

// aclOf returns an access list. A request's list is never empty in ZooKeeper, and names only who can be somebody.
// Permissions that there are not are left out.
func (c *conn) aclOf(all []jute.ACL) (tree.ACL, jute.Code) {
	if len(all) == 0 {
		return nil, jute.InvalidACL
	}
	acl := make(tree.ACL, len(all))
	for i, a := range all {
		perms := tree.Permissions(a.Perms) & tree.All //nolint:gosec // its bits
		acl[i] = tree.Grant{Permissions: perms, Scheme: a.Scheme, ID: a.ID}
		if !names(acl[i]) {
			return nil, jute.InvalidACL
		}
	}
	acl, err := acl.Expand(c.who())
	if err != nil {
		return nil, jute.InvalidACL
	}
	acl = distinct(acl)
	if acl.Check() != nil {
		return nil, jute.InvalidACL
	}
	return acl, jute.OK
}

// names reports whether a grant is to somebody who can be. The hash of a digest has no colon.
func names(g tree.Grant) bool {
	if g.Scheme == tree.Digest && strings.Count(g.ID, ":") != 1 {
		return false
	}
	g.Permissions = tree.All
	return g.Scheme == tree.Auth || (tree.ACL{g}).Check() == nil
}

// distinct returns a list without the grants that it has twice, and without those of nothing.
func distinct(acl tree.ACL) tree.ACL {
	kept := make(tree.ACL, 0, len(acl))
	for _, g := range acl {
		if g.Permissions != 0 && !slices.Contains(kept, g) {
			kept = append(kept, g)
		}
	}
	return kept
}
