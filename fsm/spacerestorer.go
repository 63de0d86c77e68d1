package fsm

import (
	"errors"

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
	"holdfast/tree/store"
	"holdfast/tree/writers"
)

// spaceRestorer builds what hangs on the sessions of a snapshot (D7).
type spaceRestorer struct {
	space   *space
	writers *writers.Restorer
	tree    *store.Restorer
	lists   form.Lists
}

// beginTree takes what a header says of the tree.
func (r *restorer) beginTree(m *logv1.Header) error {
	if m.GetLevel() == 0 && r.tables.key != (session.Key{}) {
		return outOfRange("level", "not zero once the cluster has a key")
	}
	limits, err := limitsFrom(m.GetLimits())
	if err != nil {
		return err
	}
	s := &space{level: m.GetLevel(), limits: limits}
	if s.time, err = timeFrom(m); err != nil {
		return err
	}
	alive := func(id uint64) bool {
		_, ok := r.tables.session(session.ID(id))
		return ok
	}
	r.hanging = &spaceRestorer{
		space: s, writers: writers.NewRestorer(s, writers.DefaultLimits(), alive), tree: store.NewRestorer(s, limits, alive),
	}
	return nil
}

// takeOfTree takes a record that package form reads.
func (r *restorer) takeOfTree(record []byte) error {
	if r.hanging == nil {
		return errors.New("it comes before the header")
	}
	if form.IsWriter(record) {
		one, err := form.ParseWriter(record)
		if err == nil {
			err = r.enter(inWriters, nil, one.Session)
		}
		if err == nil {
			err = r.hanging.writers.Add(one)
		}
		return named("writer", err)
	}
	one, err := r.hanging.lists.ParseEntry(record)
	if err == nil {
		err = r.enter(inTree, nil, r.last+1) // the tree knows the order of its entries
	}
	if err == nil {
		err = r.hanging.tree.Add(one)
	}
	return named("tree_entry", err)
}

// finishTree puts the tree into the tables once its last record is there.
func (r *restorer) finishTree() error {
	if r.tables.space != nil {
		return nil
	}
	s := r.hanging.space
	var err error
	if s.tree, err = r.hanging.tree.Tree(); err != nil {
		return err
	}
	s.writers = r.hanging.writers.Table()
	r.tables.space, r.tables.shown = s, s.freeze(r.header.GetIndex())
	return nil
}

// storyFrom returns the story in a certificate.
func storyFrom(m *logv1.Certificate) (*session.Story, error) {
	labels, err := labelsFrom(m.GetLabels())
	switch {
	case err != nil:
		return nil, err
	case m.GetTimeoutMs() == 0 || unpackTimeout(m.GetTimeoutMs()) > session.MaxTimeout:
		return nil, outOfRange("timeout_ms", "1 ms to "+session.MaxTimeout.String())
	case m.GetOpenedMs() > session.MaxMS:
		return nil, outOfRange("opened_ms", msLimit)
	}
	if err := checkAct(m.GetBy(), m.GetWhy()); err != nil {
		return nil, err
	}
	return &session.Story{
		Timeout: unpackTimeout(m.GetTimeoutMs()), OpenedAt: session.TimeOfMS(m.GetOpenedMs()), Labels: labels,
		Late: unpackTimeout(m.GetLateMs()), Credit: unpackTimeout(m.GetCreditMs()),
		Silent: unpackTimeout(m.GetSilentMs()), By: m.GetBy(), Why: m.GetWhy(),
	}, nil
}

// leftFrom returns what a certificate says of the tree; nil if all of it is 0.
func leftFrom(m *logv1.Certificate) (*session.Left, error) {
	left := session.Left{
		Instance: m.GetInstance(), Applied: m.GetApplied(), Floor: m.GetFloor(), Ephemerals: m.GetEphemerals(),
		Will: tree.WillFate(m.GetWill()),
	}
	switch {
	case left == session.Left{}:
		return nil, nil //nolint:nilnil // there is nothing
	case left.Floor > left.Applied:
		return nil, outOfRange("floor", "at most applied")
	case m.GetWill() < 0 || left.Will > tree.WillDropped:
		return nil, outOfRange("will", "a fate that this program knows")
	}
	return &left, nil
}
