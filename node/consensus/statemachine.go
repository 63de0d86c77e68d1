package consensus

import (
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/fsm"
	"holdfast/node/storage"
	"holdfast/node/watchdog"
	"holdfast/transport/tracing"
)

// watchedFSM is the state machine as Raft sees it. It reports each applied entry to the watchdog, but not the restoring
// of a snapshot, which takes as long as the snapshot is large. It has followers notified of each entry.
type watchedFSM struct {
	*fsm.State
	dog     *watchdog.Watchdog
	timings Timings
	tracer  *tracing.Tracer
	// landed is called after each entry.
	landed func(*raft.Log)
	// restored makes the log continue from the snapshot that was restored; fatal ends the node when that fails.
	restored func() error
	fatal    func(error)
}

var _ raft.ConfigurationStore = (*watchedFSM)(nil)

// Apply applies an entry.
func (w *watchedFSM) Apply(l *raft.Log) any {
	number := w.dog.BeginApply(l.Index)
	defer w.dog.End(number)
	began := time.Now()
	w.timings.ApplyBegins(l.Index, began)
	result := w.State.Apply(l)
	ended := time.Now()
	w.timings.ObserveApply(ended.Sub(began))
	w.tracer.Applied(l.Index, began, ended)
	w.landed(l)
	return result
}

// Restore restores a snapshot. Raft waits for Restore, and appends nothing meanwhile.
func (w *watchedFSM) Restore(from io.ReadCloser) error {
	if err := w.State.Restore(from); err != nil {
		return err
	}
	if err := w.restored(); err != nil {
		w.fatal(fmt.Errorf("cutting the log behind a snapshot: %w: the node stops; start it again", err))
		return err
	}
	return nil
}

// Snapshot returns a snapshot of the present state.
func (w *watchedFSM) Snapshot() (raft.FSMSnapshot, error) {
	s, err := w.State.Snapshot()
	if err != nil {
		return nil, err
	}
	return storage.OwnSnapshot(s), nil
}
