package zk

import (
	"slices"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// returning reports whether the client's watches are being brought back: what is told now was missed, and has no zxid
// (Z7).
func (l *line) returning() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held != nil && (l.held.Op == jute.SetWatches || l.held.Op == jute.SetWatches2)
}

// prepareSetWatches brings back the watches of a client that was away (W-07).
func prepareSetWatches(c *conn, r *request) {
	b := r.Body.(jute.SetWatchesRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	var once, lasting []tree.WatchSpec
	for _, of := range []struct {
		paths []string
		kind  tree.WatchKind
	}{
		{b.Data, tree.WatchData},
		{b.Exist, tree.WatchExists},
		{b.Child, tree.WatchChild},
		{b.Persistent, tree.WatchPersistent},
		{b.Recursive, tree.WatchRecursive},
	} {
		for _, path := range of.paths {
			if isVain(path, of.kind) {
				continue
			}
			if tree.CheckPath(path) != nil {
				c.refuse(r, jute.BadArguments)
				return
			}
			if spec := (tree.WatchSpec{Path: path, Kind: of.kind}); of.kind.OneShot() {
				once = append(once, spec)
			} else {
				lasting = append(lasting, spec)
			}
		}
	}
	since := tree.Stamp(max(b.Zxid, 0)) //nolint:gosec // not negative
	// All at once: what a lasting watch is told ends one-shot watches too, and is told once.
	additions := []tree.Addition{{Watches: append(once, lasting...), Since: since}}
	if since == 0 { // A client that has seen nothing has missed all changes (W-07). Its lasting watches begin now.
		additions = []tree.Addition{{Watches: once, Since: 1}, {Watches: lasting}}
	}
	c.addWatches(r, additions, func(*jute.Encoder) {})
}

// isVain reports whether a client has a watch that never fires, since what it has asked was answered: whether there is
// an entry of a path that none can have, or what is read of an entry that is made at the read (Z8). The client's other
// watches are not refused for it, and it does not hear that an entry is gone which never was in the tree.
func isVain(path string, kind tree.WatchKind) bool {
	return kind == tree.WatchExists && tree.CheckPath(path) != nil || kind.OneShot() && path == configPath
}

// prepareAddWatch adds a lasting watch.
func prepareAddWatch(c *conn, r *request) {
	b := r.Body.(jute.TypeRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	kind, ok := map[int32]tree.WatchKind{
		jute.ModePersistent: tree.WatchPersistent, jute.ModeRecursive: tree.WatchRecursive,
	}[b.Type]
	if !ok {
		c.refuse(r, jute.MarshallingError)
		return
	}
	if tree.CheckPath(b.Path) != nil {
		c.refuse(r, jute.BadArguments)
		return
	}
	additions := []tree.Addition{{Watches: []tree.WatchSpec{{Path: b.Path, Kind: kind}}}}
	c.addWatches(r, additions, func(e *jute.Encoder) { e.Int(int32(jute.OK)) })
}

// addWatches makes a request that adds watches, as many at a time as the node takes. What lasting watches have missed
// is told in portions, so that it fits however much it is.
func (c *conn) addWatches(r *request, additions []tree.Addition, reply func(e *jute.Encoder)) {
	var parts []tree.Addition
	for _, a := range additions {
		for part := range slices.Chunk(a.Watches, tree.MaxWatches) {
			parts = append(parts, tree.Addition{Watches: part, Since: a.Since, InPortions: true})
		}
	}
	if len(parts) == 0 {
		c.inTurn(r, func(zxid int64) *jute.Encoder {
			e := jute.Reply(r.Xid, zxid, jute.OK)
			reply(e)
			return e
		})
		return
	}
	r.order = alone
	r.begin = func(r *request, key uint64) error { return adds(c, r, key, parts[0]) }
	r.answer = func(r *request, a *session.TreeAnswer) (*jute.Encoder, bool, error) {
		code, err := codeOfAnswer(c, a)
		if err != nil {
			return nil, false, err
		}
		if a.More != nil {
			parts[0].Told = *a.More
		} else {
			parts = parts[1:]
		}
		if code == jute.OK && len(parts) > 0 {
			return nil, true, c.line.hand(r, r.begin)
		}
		e := jute.Reply(r.Xid, int64(a.Stamp), code) //nolint:gosec // stamps are positive
		if code == jute.OK {
			reply(e)
		}
		return e, false, nil
	}
}

// adds hands an addition of watches to the node. One that is read-only takes it, as it does reads (Z9). When it is that
// no more it ends the connection, and nothing is lost: what the client had seen of the node's old state, up to its
// newest zxid, is a beginning of what the cluster has. It brings its watches back with that zxid, and is told what has
// changed since (V4), by whichever node it comes to.
func adds(c *conn, r *request, key uint64, a tree.Addition) error {
	a.Options.AllowStale = c.token.Local
	return c.tree.AddWatches(session.TreeAddition{Key: key, Bytes: r.bytes + watchBytes*len(a.Watches), Addition: a})
}

// watchBytes is about what a watch takes while it waits to be added, besides its path.
const watchBytes = 64

// kindsOf returns the kinds of watches of a watcher type (N-22); nil if there is no such type.
func kindsOf(watcher int32) []tree.WatchKind {
	switch watcher {
	case jute.ChildrenWatcher:
		return []tree.WatchKind{tree.WatchChild}
	case jute.DataWatcher:
		return []tree.WatchKind{tree.WatchData, tree.WatchExists}
	case jute.AnyWatcher:
		return []tree.WatchKind{
			tree.WatchData, tree.WatchExists, tree.WatchChild, tree.WatchPersistent, tree.WatchRecursive,
		}
	case jute.PersistentWatch:
		return []tree.WatchKind{tree.WatchPersistent}
	case jute.RecursiveWatch:
		return []tree.WatchKind{tree.WatchRecursive}
	default:
		return nil
	}
}

// prepareRemoveWatches removes watches, and is refused if there are none.
func prepareRemoveWatches(c *conn, r *request) {
	b := r.Body.(jute.TypeRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	kinds := kindsOf(b.Type)
	if kinds == nil {
		c.refuse(r, jute.MarshallingError)
		return
	}
	if tree.CheckPath(b.Path) != nil { // no watch can be there
		c.refuse(r, jute.NoWatcher)
		return
	}
	specs := make([]tree.WatchSpec, len(kinds))
	for i, kind := range kinds {
		specs[i] = tree.WatchSpec{Path: b.Path, Kind: kind}
	}
	r.order = alone
	r.begin = func(_ *request, key uint64) error { return c.tree.RemoveWatches(key, specs) }
	r.answer = func(r *request, a *session.TreeAnswer) (*jute.Encoder, bool, error) {
		code, err := codeOfAnswer(c, a)
		if err != nil {
			return nil, false, err
		}
		if code == jute.OK && a.Removed == 0 {
			code = jute.NoWatcher
		}
		return jute.Reply(r.Xid, int64(a.Stamp), code), false, nil //nolint:gosec // stamps are positive
	}
}

// prepareCheckWatches asks whether there is such a watch. The node keeps no list that could be asked: each kind is
// removed, and added again as from the moment of its removal if it was there, so that nothing is missed. If the node
// does not take it back, the connection ends, and the client brings its watches to the next one.
func prepareCheckWatches(c *conn, r *request) {
	b := r.Body.(jute.TypeRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	kinds := kindsOf(b.Type)
	if kinds == nil {
		c.refuse(r, jute.MarshallingError)
		return
	}
	if tree.CheckPath(b.Path) != nil { // no watch can be there
		c.refuse(r, jute.NoWatcher)
		return
	}
	r.order = alone
	at, found := 0, false
	spec := func() []tree.WatchSpec { return []tree.WatchSpec{{Path: b.Path, Kind: kinds[at]}} }
	remove := func(_ *request, key uint64) error { return c.tree.RemoveWatches(key, spec()) }
	adding := false
	r.begin = remove
	r.answer = func(r *request, a *session.TreeAnswer) (*jute.Encoder, bool, error) {
		code, err := codeOfAnswer(c, a)
		switch {
		case adding && a.Err != nil:
			return nil, false, a.Err
		case err != nil || code != jute.OK:
			return jute.Reply(r.Xid, int64(a.Stamp), code), false, err //nolint:gosec // stamps are positive
		}
		if !adding && a.Removed > 0 {
			found, adding = true, true
			return nil, true, c.line.hand(r, func(r *request, key uint64) error {
				return adds(c, r, key, tree.Addition{Watches: spec(), Since: a.Stamp})
			})
		}
		adding = false
		if at++; at < len(kinds) {
			return nil, true, c.line.hand(r, remove)
		}
		if !found {
			code = jute.NoWatcher
		}
		return jute.Reply(r.Xid, int64(a.Stamp), code), false, nil //nolint:gosec // stamps are positive
	}
}
