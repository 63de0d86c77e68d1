package zk

import (
	"errors"
	"fmt"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// requestOf reads a frame and says what is to be done about it. It answers those at once that keep no order, and
// returns nil for them.
func (c *conn) requestOf(frame []byte) (*request, error) {
	parsed, err := jute.ParseRequest(frame)
	var body *jute.BodyError
	if err != nil && !errors.As(err, &body) {
		return nil, fmt.Errorf("%w: %w", errForeign, err) // too short for its header (N-46)
	}
	r := &request{Request: parsed, bytes: len(frame) + besides(parsed.Body)}
	if err != nil {
		c.refuseAnd(r, jute.MarshallingError, fmt.Errorf("%w: %w", errForeign, err))
		return r, nil
	}
	if parsed.Op == jute.Ping {
		return nil, c.out.reply(small{xid: parsed.Xid}) // answered
	}
	if prepare := handlers[parsed.Op]; prepare != nil {
		prepare(c, r)
		return r, nil
	}
	c.refuseAnd(r, jute.Unimplemented, fmt.Errorf("%w: %v is not served", errForeign, parsed.Op)) // N-40, N-42
	return r, nil
}

// What parts of a request take, about, besides their bytes in the frame: an operation of a multi, a grant of its access
// list, and a path of a watch, each as the client sent it and as the node is asked.
const (
	partBytes  = 240
	grantBytes = 96
	pathBytes  = 48
)

// besides returns what a request of many parts takes besides its frame (G8). Without: frames of short paths count for
// an eighth of what waits.
func besides(body any) (bytes int) {
	switch b := body.(type) {
	case jute.SetWatchesRequest:
		for _, paths := range [...][]string{b.Data, b.Exist, b.Child, b.Persistent, b.Recursive} {
			bytes += pathBytes * len(paths)
		}
	case jute.MultiRequest:
		for _, op := range b.Ops {
			bytes += partBytes
			if made, is := op.Body.(jute.CreateRequest); is {
				bytes += grantBytes * len(made.ACL)
			}
		}
	default:
	}
	return bytes
}

// handlers say how each operation is served (Z1).
//
//nolint:gochecknoglobals // a table
var handlers = map[jute.Op]func(c *conn, r *request){
	jute.Create: changing(prepareWrite), jute.Create2: changing(prepareWrite),
	jute.CreateContainer: changing(prepareWrite), jute.CreateTTL: changing(prepareWrite),
	jute.Delete: changing(prepareWrite), jute.SetData: changing(prepareWrite), jute.SetACL: changing(prepareWrite),
	jute.Multi: changing(prepareMulti), jute.Sync: changing(prepareSync),
	jute.Reconfig: changing(func(c *conn, r *request) { c.refuse(r, jute.ReconfigDisabled) }),

	jute.Exists: orConfig(prepareExists), jute.GetData: orConfig(prepareGetData), jute.GetACL: orConfig(prepareGetACL),
	jute.GetChildren: orConfig(prepareChildren), jute.GetChildren2: orConfig(prepareChildren),
	jute.GetEphemerals: prepareEphemerals, jute.GetChildrenNumber: orConfig(prepareNumber),
	jute.MultiRead: prepareMultiRead,

	jute.SetWatches: prepareSetWatches, jute.SetWatches2: prepareSetWatches,
	jute.AddWatch: prepareAddWatch, jute.RemoveWatches: prepareRemoveWatches,
	jute.CheckWatches: prepareCheckWatches,

	jute.Auth: prepareAuth, jute.WhoAmI: prepareWhoAmI, jute.CloseSession: prepareClose,
	jute.SASL: func(c *conn, r *request) { c.refuseAnd(r, jute.AuthFailed, errRefused) },
}

// errTakesNone is what the node is told of a request that a read-only node does not take.
var errTakesNone = errors.New("a read-only node takes no such request")

// changing makes the handler of an operation that a read-only node refuses (Z9), before it looks at anything else that
// may be wrong with the request.
func changing(prepare func(c *conn, r *request)) func(c *conn, r *request) {
	return func(c *conn, r *request) {
		if prepare(c, r); r.write != nil {
			return // the node refuses it
		}
		begin, answer := r.begin, r.answer
		r.begin = func(r *request, key uint64) error {
			if c.token.Local && c.server.service.State().Mode == session.ModeReadOnly {
				return c.tree.Refuse(key, c.token.ID, 0, errTakesNone)
			}
			return begin(r, key)
		}
		r.answer = func(r *request, a *session.TreeAnswer) (*jute.Encoder, bool, error) {
			if errors.Is(a.Err, errTakesNone) {
				return jute.Reply(r.Xid, int64(a.Stamp), jute.NotReadOnly), false, nil //nolint:gosec // stamps are positive
			}
			return answer(r, a)
		}
	}
}

// errInTurn is what the node is told of a request that is answered in its turn without it.
var errInTurn = errors.New("answered by the front end")

// inTurn makes a request that is answered when its turn comes, without the node. Its record is dropped: the node,
// which is told of no more than a key, would not count it (G8).
func (c *conn) inTurn(r *request, reply func(zxid int64) *jute.Encoder) {
	r.Body = nil
	r.begin = func(_ *request, key uint64) error { return c.tree.Refuse(key, c.token.ID, 0, errInTurn) }
	r.answer = func(_ *request, a *session.TreeAnswer) (*jute.Encoder, bool, error) {
		if !errors.Is(a.Err, errInTurn) {
			return nil, false, a.Err
		}
		return reply(int64(a.Stamp)), false, nil //nolint:gosec // stamps are positive
	}
}

// refuse makes a request that is refused in its turn.
func (c *conn) refuse(r *request, code jute.Code) {
	c.inTurn(r, func(zxid int64) *jute.Encoder { return jute.Reply(r.Xid, zxid, code) })
}

// refuseAnd makes a request that is refused in its turn, and ends the connection.
func (c *conn) refuseAnd(r *request, code jute.Code, why error) {
	c.server.stats.refused.Add(1)
	r.order = lastOf
	c.inTurn(r, func(int64) *jute.Encoder {
		c.mu.Lock()
		if c.why == nil {
			c.why = why
		}
		c.mu.Unlock()
		c.out.finishNow()
		return jute.Reply(r.Xid, zxidOf(code), code)
	})
}

// zxidOf returns the zxid of a reply that ends the connection (N-17).
func zxidOf(code jute.Code) int64 {
	if code == jute.AuthFailed {
		return 0
	}
	return -1
}

// prepareClose ends the session. It waits for what the client asked before (G7).
func prepareClose(c *conn, r *request) {
	r.order = alone
	r.begin = func(*request, uint64) error {
		c.out.fate.closing.Store(true)
		go func() {
			if err := c.link.Close(c.server.ctx, c.token); err != nil && !errors.Is(err, session.ErrExpired) {
				c.end(fmt.Errorf("closing the session: %w", err))
				return
			}
			c.out.closed(r.Xid)
		}()
		return nil
	}
}

// codeOf returns the code of a refusal; false for what ends the connection, which the client sees as a lost connection
// (Z6). So does a limit that the node is at for a moment, for all its clients together (G8): one whose connection ends
// goes on elsewhere, while kazoo ends for good with a code that it does not know, and the Java client does not look at
// the code of a setWatches. Without: the watches are gone.
func codeOf(err error) (jute.Code, bool) {
	var refused *tree.RefusedError
	switch {
	case errors.As(err, &refused):
		return codes[refused.Code], true
	case errors.Is(err, session.ErrInvalid):
		return jute.BadArguments, true
	case errors.Is(err, session.ErrReadOnly):
		return jute.NotReadOnly, true
	case errors.Is(err, session.ErrLimit):
		return jute.Throttled, retryOf(err) == 0
	default:
		return 0, false
	}
}

//nolint:gochecknoglobals // a table
var codes = map[tree.Code]jute.Code{
	tree.NoNode: jute.NoNode, tree.NoParent: jute.NoNode, tree.NodeExists: jute.NodeExists,
	tree.NotEmpty: jute.NotEmpty, tree.BadVersion: jute.BadVersion, tree.EphemeralParent: jute.EphemeralParent,
	tree.NoPermission: jute.NoAuth, tree.OverQuota: jute.QuotaExceeded, tree.OverLimit: jute.QuotaExceeded,
	tree.Reserved: jute.BadArguments,
}
