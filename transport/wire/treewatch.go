package wire

import (
	"fmt"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/tree"
)

// adding is any message with the fields of a request to add watches.
type adding interface {
	GetWatches() []*holdfastv1.WatchSpec
	GetSince() uint64
	GetSeen() uint64
	GetAllowStale() bool
}

var (
	_ adding = (*holdfastv1.WatchRequest)(nil)
	_ adding = (*holdfastv1.AddWatches)(nil)
)

// AdditionFrom returns the watches that a client wants to add. The error is a [session.FieldError].
func AdditionFrom(p adding) (tree.Addition, error) {
	watches, err := watchesFrom(p.GetWatches(), holdfastv1.WatchKind_WATCH_KIND_DATA)
	return tree.Addition{
		Watches: watches, Since: tree.Stamp(p.GetSince()),
		Options: tree.ReadOptions{Seen: tree.Stamp(p.GetSeen()), AllowStale: p.GetAllowStale()},
	}, err
}

// AdditionProto returns the request of a Connect stream to add watches.
func AdditionProto(seq uint64, a tree.Addition) *holdfastv1.AddWatches {
	return &holdfastv1.AddWatches{
		Seq: seq, Watches: watchesProto(a.Watches), Since: uint64(a.Since), Seen: uint64(a.Options.Seen),
		AllowStale: a.Options.AllowStale,
	}
}

// RemovalFrom returns the watches that a client wants to remove. Kind 0 means all kinds of the path.
func RemovalFrom(p *holdfastv1.RemoveWatches) ([]tree.WatchSpec, error) {
	return watchesFrom(p.GetWatches(), holdfastv1.WatchKind_WATCH_KIND_UNSPECIFIED)
}

// RemovalProto returns the request of a Connect stream to remove watches.
func RemovalProto(seq uint64, watches []tree.WatchSpec) *holdfastv1.RemoveWatches {
	return &holdfastv1.RemoveWatches{Seq: seq, Watches: watchesProto(watches)}
}

func watchesProto(watches []tree.WatchSpec) (all []*holdfastv1.WatchSpec) {
	for _, w := range watches {
		all = append(all, &holdfastv1.WatchSpec{Path: w.Path, Kind: holdfastv1.WatchKind(w.Kind)})
	}
	return all
}

// watchesFrom returns watches whose kinds are at least lowest.
func watchesFrom(all []*holdfastv1.WatchSpec, lowest holdfastv1.WatchKind) ([]tree.WatchSpec, error) {
	if len(all) == 0 || len(all) > tree.MaxWatches {
		return nil, &session.FieldError{Field: "watches", Limit: fmt.Sprintf("1 to %d", tree.MaxWatches)}
	}
	watches := make([]tree.WatchSpec, len(all))
	for i, p := range all {
		field := fmt.Sprintf("watches[%d]", i)
		path, err := PathFrom(field+".path", p.GetPath())
		if err != nil {
			return nil, err
		}
		if p.GetKind() < lowest || p.GetKind() > holdfastv1.WatchKind_WATCH_KIND_RECURSIVE {
			return nil, &session.FieldError{Field: field + ".kind", Limit: "data, exists, child, persistent or recursive"}
		}
		watches[i] = tree.WatchSpec{Path: path, Kind: tree.WatchKind(p.GetKind())}
	}
	return watches, nil
}

// EventsProto returns events in their order.
func EventsProto(events []tree.Event) *holdfastv1.Events {
	p := &holdfastv1.Events{Events: make([]*holdfastv1.Event, len(events))}
	for i, e := range events {
		p.Events[i] = &holdfastv1.Event{Stamp: uint64(e.Stamp), Kind: holdfastv1.EventKind(e.Kind), Path: e.Path}
	}
	return p
}

// EventsFrom returns events, whose stamps must not fall. The error is a [session.FieldError] of "events".
func EventsFrom(p *holdfastv1.Events) ([]tree.Event, error) {
	if len(p.GetEvents()) == 0 {
		return nil, &session.FieldError{Field: "events", Limit: "1 or more"}
	}
	events := make([]tree.Event, len(p.GetEvents()))
	last := uint64(1)
	for i, e := range p.GetEvents() {
		switch {
		case e.GetStamp() < last:
			return nil, &session.FieldError{Field: fmt.Sprintf("events[%d].stamp", i), Limit: "not 0 or below the one before"}
		case e.GetKind() <= 0 || e.GetKind() > holdfastv1.EventKind_EVENT_KIND_CHILDREN_CHANGED:
			return nil, &session.FieldError{Field: fmt.Sprintf("events[%d].kind", i), Limit: "a kind of events"}
		case e.GetPath() == "":
			return nil, &session.FieldError{Field: fmt.Sprintf("events[%d].path", i), Limit: session.Missing}
		}
		last = e.GetStamp()
		events[i] = tree.Event{Stamp: tree.Stamp(last), Kind: tree.EventKind(e.GetKind()), Path: e.GetPath()}
	}
	return events, nil
}

// AckedFrom returns the acknowledgements of a touch (X1 numbered writes). The error is a [session.FieldError].
func AckedFrom(t *holdfastv1.Touch) ([]session.Acknowledged, error) {
	ids, err := idsFrom("acked_ids", t.GetAckedIds(), session.MaxTouchBatch)
	if err != nil {
		return nil, err
	}
	if len(t.GetAcked()) != len(ids) {
		return nil, &session.FieldError{Field: "acked", Limit: fmt.Sprintf("as many as acked_ids, %d", len(ids))}
	}
	var all []session.Acknowledged
	for i, id := range ids {
		all = append(all, session.Acknowledged{Session: id, UpTo: t.GetAcked()[i]})
	}
	return all, nil
}
