package client

import (
	"fmt"
	"slices"
	"testing"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// fakeTree is the tree of a fake cluster: creates, sets, deletes and checks, without access lists. The cluster's mu
// guards it. The methods that the node calls for sessions do nothing without a tree.
type fakeTree struct {
	index   uint64
	entries map[string]*fakeEntry
	writers map[session.ID]*fakeWriter
	// log are the events, of which those above start can be delivered again.
	log   []tree.Event
	start tree.Stamp
	// took are the writes in the order of their numbers.
	took []string
	// acks are the acknowledgements in touches.
	acks map[session.ID]uint64
	// noInstances: opens name no instance to the cluster.
	noInstances bool
}

type fakeEntry struct {
	data []byte
	stat tree.Stat
}

// fakeWriter is the kept state of a session's writes (X2 writers).
type fakeWriter struct {
	instance, applied, floor uint64
	results                  map[uint64]tree.Result
}

// newTreeTrial returns a cluster with a tree, and a client that knows all of its nodes.
func newTreeTrial(t *testing.T, nodes int) (*fakeCluster, *Client) {
	t.Helper()
	c, cl := newModalTrial(t, nodes, func(cfg *Config) { cfg.ReadOnly, cfg.Instance = false, 77 })
	c.grow()
	return c, cl
}

// grow gives the cluster a tree.
func (c *fakeCluster) grow() {
	c.set(func() {
		c.tree = &fakeTree{
			index: 100, entries: map[string]*fakeEntry{"/": {stat: tree.Stat{
				Created: 1, Modified: 1, ChildrenModified: 1, Kind: tree.Persistent,
			}}},
			writers: make(map[session.ID]*fakeWriter), acks: make(map[session.ID]uint64),
		}
	})
}

func (f *fakeTree) now() tree.Stamp { return tree.StampAt(f.index, 1) }

func (f *fakeTree) writer(id session.ID) *fakeWriter {
	if f.writers[id] == nil {
		f.writers[id] = &fakeWriter{results: make(map[uint64]tree.Result)}
	}
	return f.writers[id]
}

func (f *fakeTree) opened(id session.ID, instance uint64) {
	if f != nil && !f.noInstances {
		f.writer(id).instance = instance
	}
}

// resumed is X4.
func (f *fakeTree) resumed(s *fakeSession) (applied, floor uint64) {
	if f == nil {
		return 0, 0
	}
	w := f.writer(s.ID)
	if w.instance != s.Instance {
		w.floor, w.results = w.applied, make(map[uint64]tree.Result)
	}
	w.instance = s.Instance
	return w.applied, w.floor
}

func (f *fakeTree) acknowledged(m *holdfastv1.Touch) {
	for i, id := range m.GetAckedIds() {
		f.acks[session.ID(id)] = m.GetAcked()[i]
	}
}

// ends is X9, and I12.
func (f *fakeTree) ends(id session.ID, cert *session.Certificate) {
	if f == nil {
		return
	}
	w := f.writer(id)
	cert.Left = session.Left{Instance: w.instance, Applied: w.applied, Floor: w.floor}
	for path, e := range f.entries {
		if e.stat.Owner == uint64(id) {
			delete(f.entries, path)
		}
	}
}

func describeTree(m *holdfastv1.ClientMessage) (kind string, seq uint64, detail string) {
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Write:
		kind = "write"
		if m.Write.GetVoid() {
			kind = "void"
		}
		return kind, m.Write.GetSeq(), fmt.Sprintf(" %d acked %d", m.Write.GetNumber(), m.Write.GetAcked())
	case *holdfastv1.ClientMessage_Read:
		return "read", m.Read.GetSeq(), ""
	case *holdfastv1.ClientMessage_AddWatches:
		return "watch", m.AddWatches.GetSeq(), fmt.Sprintf(" %d since %v", len(m.AddWatches.GetWatches()),
			tree.Stamp(m.AddWatches.GetSince()))
	case *holdfastv1.ClientMessage_RemoveWatches:
		return "unwatch", m.RemoveWatches.GetSeq(), ""
	}
	return "nothing", 0, ""
}

// doTree does a request of the tree. The caller holds mu.
func (n *fakeNode) doTree(s *fakeStream, m *holdfastv1.ClientMessage) (*holdfastv1.ServerMessage, error) {
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Write:
		result, err := n.write(s, m.Write)
		if err != nil {
			return nil, err
		}
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Written{
			Written: wire.WrittenProto(m.Write.GetSeq(), result),
		}}, nil
	case *holdfastv1.ClientMessage_Read:
		return n.readTree(s, m.Read)
	case *holdfastv1.ClientMessage_AddWatches:
		a, err := wire.AdditionFrom(m.AddWatches)
		switch {
		case err != nil:
			return nil, err
		case n.state.Mode == session.ModeReadOnly && !a.Options.AllowStale: // N3
			return nil, session.ErrReadOnly
		}
		n.c.tree.watch(s, a)
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_WatchesAdded{
			WatchesAdded: &holdfastv1.WatchesAdded{Seq: m.AddWatches.GetSeq(), Stamp: uint64(n.c.tree.now())},
		}}, nil
	case *holdfastv1.ClientMessage_RemoveWatches:
		specs, err := wire.RemovalFrom(m.RemoveWatches)
		for _, spec := range specs {
			delete(s.watches, spec)
		}
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_WatchesRemoved{
			WatchesRemoved: &holdfastv1.WatchesRemoved{Seq: m.RemoveWatches.GetSeq()},
		}}, err
	}
	return nil, session.ErrInvalid
}

// write is X2 and X8.
func (n *fakeNode) write(s *fakeStream, m *holdfastv1.Write) (tree.Result, error) {
	f := n.c.tree
	got, err := wire.WriteFrom(m, nil)
	if err != nil {
		return tree.Result{}, err
	}
	held := n.c.sessions[session.ID(got.Session)]
	switch {
	case held == nil:
		return tree.Result{}, &session.ExpiredError{ID: session.ID(got.Session)}
	case held.served != s:
		return tree.Result{}, session.MovedTo(held.Session)
	case held.Local:
		n.c.t.Errorf("a local session writes")
	}
	w := f.writer(held.ID)
	result, kept := w.results[got.Number]
	switch {
	case w.instance == 0:
		return tree.Result{}, session.ErrNoInstance
	case kept:
		return result, nil
	case got.Number <= w.applied:
		return tree.Result{}, session.ErrOutcomeUnknown
	case got.Number > w.applied+1:
		return tree.Result{}, &tree.GapError{Expected: w.applied + 1}
	}
	f.index++
	w.applied = got.Number
	before := len(f.log)
	result = f.apply(got, held.ID)
	n.c.tellEvents(before)
	for number := range w.results {
		if number <= got.Acked {
			delete(w.results, number)
		}
	}
	w.results[got.Number] = result
	return result, nil
}

// apply uses up a number: it carries out the operations, or does nothing for a void.
func (f *fakeTree) apply(w tree.NumberedWrite, id session.ID) tree.Result {
	result := tree.Result{Stamp: f.now(), Void: w.Void}
	f.took = append(f.took, fmt.Sprintf("%d void %v", w.Number, w.Void))
	var events []tree.Event
	for at, op := range w.Transaction.Then {
		outcome, more, refused := f.operate(op, id)
		if refused != nil {
			result.Outcome = tree.Outcome{Refused: refused, At: at}
			return result
		}
		result.Outcome.Ops, events = append(result.Outcome.Ops, outcome), append(events, more...)
	}
	f.log = append(f.log, events...)
	return result
}

func (f *fakeTree) operate(op tree.Op, id session.ID) (o tree.OpOutcome, events []tree.Event, no *tree.RefusedError) {
	refuse := func(code tree.Code) (tree.OpOutcome, []tree.Event, *tree.RefusedError) {
		return o, nil, &tree.RefusedError{Code: code, Verb: op.Verb(), Path: op.Target()}
	}
	now := f.now()
	e := f.entries[op.Target()]
	switch op := op.(type) {
	case tree.Create:
		o.Path = op.Path
		parent := f.entries[tree.Parent(op.Path)]
		switch {
		case parent == nil:
			return refuse(tree.NoParent)
		case op.Sequential:
			o.Path += tree.SequenceSuffix(uint64(parent.stat.ChildrenVersion))
		case e != nil:
			return refuse(tree.NodeExists)
		}
		parent.stat.Children++
		parent.stat.ChildrenVersion++
		e = &fakeEntry{op.Data, tree.Stat{
			Created: now, Modified: now, ChildrenModified: now, Kind: op.Kind, Bytes: len(op.Data),
		}}
		if op.Kind == tree.Ephemeral {
			e.stat.Owner = uint64(id)
		}
		f.entries[o.Path], o.Stat = e, e.stat
		return o, []tree.Event{
			{Stamp: now, Kind: tree.EntryCreated, Path: o.Path},
			{Stamp: now, Kind: tree.ChildrenChanged, Path: tree.Parent(o.Path)},
		}, nil
	case tree.Set:
		switch {
		case e == nil:
			return refuse(tree.NoNode)
		case op.Version != tree.Any && op.Version != e.stat.Version:
			return refuse(tree.BadVersion)
		}
		changed := &fakeEntry{op.Data, e.stat}
		changed.stat.Version++
		changed.stat.Modified, changed.stat.Bytes = now, len(op.Data)
		f.entries[op.Path], o.Stat = changed, changed.stat
		return o, []tree.Event{{Stamp: now, Kind: tree.DataChanged, Path: op.Path}}, nil
	case tree.Delete:
		if e == nil {
			return refuse(tree.NoNode)
		}
		delete(f.entries, op.Path)
		f.entries[tree.Parent(op.Path)].stat.Children--
		o.Removed = 1
		return o, []tree.Event{
			{Stamp: now, Kind: tree.EntryDeleted, Path: op.Path},
			{Stamp: now, Kind: tree.ChildrenChanged, Path: tree.Parent(op.Path)},
		}, nil
	default:
		return refuse(tree.Reserved)
	}
}

// readTree answers a read. The caller holds mu.
func (n *fakeNode) readTree(s *fakeStream, m *holdfastv1.TreeRead) (*holdfastv1.ServerMessage, error) {
	f := n.c.tree
	q, err := wire.QueryFrom(m)
	switch {
	case err != nil:
		return nil, err
	case n.state.Index < 10 && q.Options.Seen > 0, q.Options.Seen > f.now():
		return nil, session.ErrLagging
	}
	a := tree.Answer{Kind: q.Kind, Stamp: f.now()}
	e := f.entries[q.Path]
	if a.Exists = e != nil; a.Exists {
		a.Stat, a.Data = e.stat, e.data
	}
	switch q.Kind { //nolint:exhaustive // the others need no entry
	case tree.GetEntry, tree.ListChildren, tree.GetACL:
		if e == nil {
			return nil, &tree.RefusedError{Code: tree.NoNode, Verb: "get", Path: q.Path}
		}
	}
	if q.Kind == tree.ListChildren {
		a.Data = nil
		a.Children, a.More = f.children(q)
	}
	if kind := q.WatchKind(); q.Watch {
		if kind == tree.WatchExists && e != nil {
			kind = tree.WatchData
		}
		s.add(tree.WatchSpec{Path: q.Path, Kind: kind})
	}
	return &holdfastv1.ServerMessage{
		Message: &holdfastv1.ServerMessage_Read{Read: wire.TreeAnswerProto(m.GetSeq(), a)},
	}, nil
}

func (f *fakeTree) children(q tree.Query) (page []tree.Child, more bool) {
	var names []string
	for path := range f.entries {
		if path != tree.Root && tree.Parent(path) == q.Path && tree.Name(path) > q.After {
			names = append(names, tree.Name(path))
		}
	}
	slices.Sort(names)
	size := q.PageSize
	if size == 0 {
		size = tree.DefaultPage
	}
	for _, name := range names[:min(size, len(names))] {
		e := f.entries[tree.Join(q.Path, name)]
		page = append(page, tree.Child{Name: name, Stat: e.stat, Data: e.data})
	}
	return page, len(names) > size
}
