package operations

import (
	"slices"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/zk/jute"
	"holdfast/zk/queue"
)

// watchBytes is the approximate memory of a watch that waits to be added, besides its path.
const watchBytes = 64

// setWatches restores the watches of a client that was away (W-07).
func (h *Handler) setWatches(r *queue.Request, b jute.SetWatchesRequest) {
	r.RestoresWatches = true
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
			if neverFires(path, of.kind) {
				continue
			}
			if tree.CheckPath(path) != nil {
				h.refuse(r, jute.BadArguments)
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
	// In one addition, because an event of a lasting watch also ends one-shot watches, and is delivered once.
	additions := []tree.Addition{{Watches: append(once, lasting...), Since: since}}
	if since == 0 { // A client that has seen nothing has missed all changes (W-07). Its lasting watches start now.
		additions = []tree.Addition{{Watches: once, Since: 1}, {Watches: lasting}}
	}
	h.addWatches(r, additions, func(*jute.Encoder) {})
}

// neverFires reports whether a client can have a watch that never fires, because the client's read was answered: a read
// of an invalid path, or of [configPath]. Such a watch must not make the node refuse the client's other watches, nor
// report the deletion of an entry that the tree never had.
func neverFires(path string, kind tree.WatchKind) bool {
	return kind == tree.WatchExists && tree.CheckPath(path) != nil || kind.OneShot() && path == configPath
}

// addWatch adds a lasting watch.
func (h *Handler) addWatch(r *queue.Request, b jute.TypeRequest) {
	kind, ok := map[int32]tree.WatchKind{
		jute.ModePersistent: tree.WatchPersistent, jute.ModeRecursive: tree.WatchRecursive,
	}[b.Type]
	if !ok {
		h.refuse(r, jute.MarshallingError)
		return
	}
	if tree.CheckPath(b.Path) != nil {
		h.refuse(r, jute.BadArguments)
		return
	}
	additions := []tree.Addition{{Watches: []tree.WatchSpec{{Path: b.Path, Kind: kind}}}}
	h.addWatches(r, additions, func(e *jute.Encoder) { e.Int(int32(jute.OK)) })
}

// addWatches makes a request that adds watches, as many at a time as the node accepts. The node delivers the missed
// changes of lasting watches in portions, so that they fit however many there are.
func (h *Handler) addWatches(r *queue.Request, additions []tree.Addition, record func(e *jute.Encoder)) {
	var parts []tree.Addition
	for _, a := range additions {
		for part := range slices.Chunk(a.Watches, tree.MaxWatches) {
			parts = append(parts, tree.Addition{Watches: part, Since: a.Since, InPortions: true})
		}
	}
	if len(parts) == 0 {
		h.queue.AnswerInTurn(r, func(zxid int64) *jute.Encoder {
			e := jute.Reply(r.Xid, zxid, jute.OK)
			record(e)
			return e
		})
		return
	}
	r.Order = queue.Exclusive
	r.Send = func(key uint64) error { return h.add(r, key, parts[0]) }
	r.Reply = func(a *session.TreeAnswer) (*jute.Encoder, *queue.Step, error) {
		code, err := h.readCode(a)
		if err != nil {
			return nil, nil, err
		}
		if a.More != nil {
			parts[0].Delivered = *a.More
		} else {
			parts = parts[1:]
		}
		if code == jute.OK && len(parts) > 0 {
			return nil, &queue.Step{Send: r.Send}, nil
		}
		e := replyTo(r, a, code)
		if code == jute.OK {
			record(e)
		}
		return e, nil, nil
	}
}

// add passes an addition of watches to the node. A read-only node accepts additions, like reads (Z9 read-only). When
// the node is no longer read-only it ends the connection without loss: everything that the client has seen, up to its
// newest zxid, is a prefix of the cluster's history. The client restores its watches with that zxid at any node, which
// delivers later changes (V4 resumed watches).
func (h *Handler) add(r *queue.Request, key uint64, a tree.Addition) error {
	a.Options.AllowStale = h.token.Local
	return h.tree.AddWatches(session.TreeAddition{Key: key, Bytes: r.Bytes + watchBytes*len(a.Watches), Addition: a})
}

// kindsOf returns the kinds of watches of a watcher type (N-22); nil for an unknown type.
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

// namedWatches returns the watches that a removal or a check names. It refuses an invalid request.
func (h *Handler) namedWatches(r *queue.Request, b jute.TypeRequest) []tree.WatchSpec {
	kinds := kindsOf(b.Type)
	switch {
	case kinds == nil:
		h.refuse(r, jute.MarshallingError)
		return nil
	case tree.CheckPath(b.Path) != nil:
		h.refuse(r, jute.NoWatcher)
		return nil
	}
	specs := make([]tree.WatchSpec, len(kinds))
	for i, kind := range kinds {
		specs[i] = tree.WatchSpec{Path: b.Path, Kind: kind}
	}
	return specs
}

// removeWatches removes watches, and is refused if there are none.
func (h *Handler) removeWatches(r *queue.Request, b jute.TypeRequest) {
	specs := h.namedWatches(r, b)
	if specs == nil {
		return
	}
	r.Order = queue.Exclusive
	r.Send = func(key uint64) error { return h.tree.RemoveWatches(key, specs) }
	r.Reply = func(a *session.TreeAnswer) (*jute.Encoder, *queue.Step, error) {
		code, err := h.readCode(a)
		if err != nil {
			return nil, nil, err
		}
		if code == jute.OK && a.Removed == 0 {
			code = jute.NoWatcher
		}
		return replyTo(r, a, code), nil, nil
	}
}

// checkWatches reports whether a watch exists. The node has no call for this question: each kind is removed, and added
// again as of the moment of its removal if it existed, so that no change is missed. If the node does not accept the
// watch again, the connection ends, and the client restores its watches at the next node.
func (h *Handler) checkWatches(r *queue.Request, b jute.TypeRequest) {
	specs := h.namedWatches(r, b)
	if specs == nil {
		return
	}
	r.Order = queue.Exclusive
	at, found, adding := 0, false, false
	remove := func(key uint64) error { return h.tree.RemoveWatches(key, specs[at:at+1]) }
	r.Send = remove
	r.Reply = func(a *session.TreeAnswer) (*jute.Encoder, *queue.Step, error) {
		code, err := h.readCode(a)
		switch {
		case adding && a.Err != nil:
			return nil, nil, a.Err
		case err != nil:
			return nil, nil, err
		case code != jute.OK:
			return replyTo(r, a, code), nil, nil
		}
		if !adding && a.Removed > 0 {
			found, adding = true, true
			again := tree.Addition{Watches: specs[at : at+1], Since: a.Stamp}
			return nil, &queue.Step{Send: func(key uint64) error { return h.add(r, key, again) }}, nil
		}
		adding = false
		if at++; at < len(specs) {
			return nil, &queue.Step{Send: remove}, nil
		}
		if !found {
			code = jute.NoWatcher
		}
		return replyTo(r, a, code), nil, nil
	}
}
