package fsm

import (
	"errors"

	"holdfast/fsm/codec"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
	"holdfast/tree/form"
	"holdfast/tree/store"
	"holdfast/tree/writers"
)

// treeRestorer builds the tree state from a snapshot (D7 tree snapshots).
type treeRestorer struct {
	state   *treeState
	writers *writers.Restorer
	tree    *store.Restorer
	lists   form.Lists
}

// beginTree begins the tree state with the fields of a header.
func (r *restorer) beginTree(m *logv1.Header) error {
	if m.GetLevel() == 0 && r.tables.key != (session.Key{}) {
		return codec.OutOfRange("level", "not zero once the cluster has a key")
	}
	limits, err := codec.LimitsFrom(m.GetLimits())
	if err != nil {
		return err
	}
	s := &treeState{level: m.GetLevel(), limits: limits}
	if s.time, err = timeFrom(m); err != nil {
		return err
	}
	alive := func(id uint64) bool {
		_, ok := r.tables.session(session.ID(id))
		return ok
	}
	r.treeRestorer = &treeRestorer{
		state: s, writers: writers.NewRestorer(s, writers.DefaultLimits(), alive), tree: store.NewRestorer(s, limits, alive),
	}
	return nil
}

// addTreeRecord adds a record that package tree/form decodes.
func (r *restorer) addTreeRecord(record []byte) error {
	if r.treeRestorer == nil {
		return errors.New("comes before the header")
	}
	if form.IsWriter(record) {
		one, err := form.ParseWriter(record)
		if err == nil {
			err = r.enter(inWriters, nil, one.Session)
		}
		if err == nil {
			err = r.treeRestorer.writers.Add(one)
		}
		return named("writer", err)
	}
	one, err := r.treeRestorer.lists.ParseEntry(record)
	if err == nil {
		err = r.enter(inTree, nil, r.last+1) // the tree knows the order of its entries
	}
	if err == nil {
		err = r.treeRestorer.tree.Add(one)
	}
	return named("tree_entry", err)
}

// finishTree puts the tree state into the tables after its last record.
func (r *restorer) finishTree() error {
	if r.tables.treeState != nil {
		return nil
	}
	s := r.treeRestorer.state
	var err error
	if s.tree, err = r.treeRestorer.tree.Tree(); err != nil {
		return err
	}
	s.writers = r.treeRestorer.writers.Table()
	r.tables.treeState, r.tables.shown = s, s.freeze(r.header.GetIndex())
	return nil
}
