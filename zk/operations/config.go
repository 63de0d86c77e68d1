package operations

import (
	"holdfast/tree"
	"holdfast/zk/jute"
	"holdfast/zk/queue"
)

// configPath is the entry that names the members of the ensemble (Z8 config and words). The tree does not have the
// entry: the node makes its text for each read, and no client can change it. Writes of the name are refused too, so
// that no client can create an entry that differs from the entry that clients read.
const configPath = "/zookeeper/config"

// orConfig makes the handler of a read that may be of [configPath].
func orConfig[R interface{ Target() string }](
	handle func(h *Handler, r *queue.Request, body R), record func(e *jute.Encoder, v *entry),
) func(h *Handler, r *queue.Request) {
	return func(h *Handler, r *queue.Request) {
		body := r.Body.(R) //nolint:errcheck,forcetypeassert // decode makes an R
		if body.Target() != configPath {
			handle(h, r, body)
			return
		}
		h.queue.AnswerInTurn(r, func(zxid int64) *jute.Encoder {
			e := jute.Reply(r.Xid, zxid, jute.OK)
			v := h.config()
			record(e, &v)
			return e
		})
	}
}

// config returns the entry at [configPath].
func (h *Handler) config() entry {
	text := h.members()
	return entry{
		stat: jute.Stat{ACLVersion: -1, DataLength: int32(len(text))}, //nolint:gosec // some addresses
		data: []byte(text), acl: []jute.ACL{{Perms: int32(tree.Read), Scheme: tree.World, ID: tree.Anyone}},
	}
}

// reserved returns the code that refuses a write at or below [configPath]; OK for any other write.
func reserved(op tree.Op) jute.Code {
	path := op.Target()
	if path != configPath && !tree.Below(path, configPath) {
		return jute.OK
	}
	r := reservation{exact: path == configPath}
	op.Visit(&r)
	return r.code
}

// reservation finds the code with which a write is refused. exact reports whether the write is of [configPath] itself.
type reservation struct {
	exact bool
	code  jute.Code
}

// refuse sets the code of a write of [configPath]; below it, the tree finds no entry.
func (r *reservation) refuse(code jute.Code) {
	if r.exact {
		r.code = code
	}
}

// Create implements [tree.Visitor].
func (r *reservation) Create(op tree.Create) {
	switch {
	case !r.exact:
		r.code = jute.NoAuth
	case !op.Sequential: // a sequential create makes an entry with another name
		r.code = jute.NodeExists
	}
}

// Set implements [tree.Visitor].
func (r *reservation) Set(tree.Set) { r.refuse(jute.NoAuth) }

// Delete implements [tree.Visitor].
func (r *reservation) Delete(tree.Delete) { r.refuse(jute.BadArguments) }

// DeleteTree implements [tree.Visitor]. ZooKeeper has no such operation.
func (r *reservation) DeleteTree(tree.DeleteTree) { r.refuse(jute.BadArguments) }

// SetACL implements [tree.Visitor].
func (r *reservation) SetACL(tree.SetACL) { r.refuse(jute.NoAuth) }

// Check implements [tree.Visitor].
func (r *reservation) Check(tree.Check) {}
