package sim

import (
	"bytes"
	"context"
	"time"

	"holdfast/backup"
	"holdfast/client"
	"holdfast/fsm" //nolint:depguard // reads a backup like a restore
	"holdfast/test/sim/history"
)

// backups says whether an operator takes backups under load and under faults: in every sixth seed from 1 on.
func (w *world) backups() bool { return w.seed%6 == 1 }

// archive takes a backup of one node after the other until ctx ends, and records what each holds.
func (w *world) archive(ctx context.Context) {
	if !w.backups() {
		return
	}
	o := w.operatorAt("archive")
	defer func() { _ = o.Close() }()
	for n := 0; ctx.Err() == nil; n++ {
		w.backUp(ctx, o, w.names[n%len(w.names)])
		sleep(ctx, 7*time.Second)
	}
}

// backUp takes a backup of one node. A backup that a fault interrupts counts for nothing. A complete backup must be
// readable.
func (w *world) backUp(ctx context.Context, o *client.Client, name string) {
	ctx, cancel := context.WithTimeout(ctx, operatorWaits)
	defer cancel()
	sent := w.record.Now()
	var all bytes.Buffer
	err := o.TakeSnapshot(ctx, name+":7400", client.SnapshotRequest{}, client.SnapshotTo{
		Started: func([]byte, backup.Header) error { return nil },
		Chunk: func(b []byte) error {
			_, err := all.Write(b)
			return err
		},
	})
	if err != nil {
		return
	}
	has, err := fsm.CheckBackup(&all)
	if err != nil {
		w.failf("a backup of %s at %v cannot be read: %v", name, w.record.Now(), err)
		return
	}
	w.record.Add(history.Event{
		Kind: history.BackedUp, Who: name, Sent: sent, Index: has.Index,
		Backup: &history.Backup{Sessions: int(has.Sessions), Entries: int(has.Entries)}, //nolint:gosec // a few thousand
	})
}
