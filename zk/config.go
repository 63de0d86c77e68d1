package zk

import (
	"holdfast/tree"
	"holdfast/zk/jute"
)

// configPath is the entry that names the members of the ensemble (Z8). It is not in the tree: it is made at the read,
// and nobody can change it. Without the second: what a client makes there is listed, and is another entry than the one
// that is read.
const configPath = "/zookeeper/config"

// orConfig makes the handler of a read that may be of [configPath].
func orConfig(prepare func(c *conn, r *request)) func(c *conn, r *request) {
	return func(c *conn, r *request) {
		if targetOf(r.Body) != configPath {
			prepare(c, r)
			return
		}
		op := r.Op
		c.inTurn(r, func(zxid int64) *jute.Encoder {
			e := jute.Reply(r.Xid, zxid, jute.OK)
			c.server.appendConfig(e, op)
			return e
		})
	}
}

// targetOf returns the path of a read.
func targetOf(body any) string {
	switch b := body.(type) {
	case jute.WatchRequest:
		return b.Path
	case jute.PathRequest:
		return b.Path
	default:
		return ""
	}
}

// appendConfig appends the record of a read of [configPath].
func (s *Server) appendConfig(e *jute.Encoder, op jute.Op) {
	text := s.cfg.Members()
	stat := jute.Stat{ACLVersion: -1, DataLength: int32(len(text))} //nolint:gosec // some addresses
	switch op {                                                     //nolint:exhaustive // the others are no reads
	case jute.Exists:
		e.Stat(stat)
	case jute.GetData:
		e.Buffer([]byte(text))
		e.Stat(stat)
	case jute.GetACL:
		e.ACLs([]jute.ACL{{Perms: int32(tree.Read), Scheme: tree.World, ID: tree.Anyone}})
		e.Stat(stat)
	case jute.GetChildren:
		e.Strings(nil)
	case jute.GetChildren2:
		e.Strings(nil)
		e.Stat(stat)
	case jute.GetChildrenNumber:
		e.Int(0)
	}
}

// guarded returns why an operation may not be carried out at or below [configPath]; OK for any other one.
func guarded(op tree.Op) jute.Code {
	path := op.Target()
	if path != configPath && !tree.Below(path, configPath) {
		return jute.OK
	}
	switch op := op.(type) {
	case tree.Create:
		switch {
		case path != configPath:
			return jute.NoAuth
		case !op.Sequential: // with a number behind it, it is another entry
			return jute.NodeExists
		}
	case tree.Set, tree.SetACL:
		if path == configPath {
			return jute.NoAuth
		}
	case tree.Delete:
		if path == configPath {
			return jute.BadArguments
		}
	}
	return jute.OK
}
