package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"holdfast/node/storage"
	"holdfast/node/storage/segments"
)

// olden is a disk whose newest snapshot is removed while its node is dead. If the log still has the snapshot's entries,
// the disk is as after a crash just before the snapshot was complete: the node must serve. Otherwise the node must
// refuse to start. It must also refuse if the leader had sent the snapshot, and only the stamp in the log shows that it
// existed.
type olden struct {
	// aside is the removed snapshot's present place, "" when none is removed.
	aside string
	serve bool
}

// refusal is in a node's error when it cannot start from its directory.
const refusal = "has lost snapshot"

// Age implements faults.Disks.
func (w *world) Age(name string) bool {
	d := w.drives[name]
	dir := d.path()
	all := snapshots(filepath.Join(dir, "snapshots"))
	if len(all) == 0 || d.old.aside != "" {
		return false
	}
	newest, before := all[len(all)-1], uint64(0)
	if len(all) > 1 {
		before = all[len(all)-2].index
	}
	whole, marked, err := coverage(dir, newest, before)
	if err != nil {
		w.failf("the disk of %s, killed: %v", name, err)
		return false
	}
	if !whole && !marked {
		return false // the process died before it had reported the snapshot to another node
	}
	aside := filepath.Join(d.dir, "aside")
	if err := errors.Join(os.RemoveAll(aside), os.Rename(newest.path, aside)); err != nil {
		w.failf("the disk of %s: %v", name, err)
		return false
	}
	d.old = olden{aside: aside, serve: whole}
	return true
}

// snapshot is a complete snapshot on a disk.
type snapshot struct {
	path        string
	term, index uint64
}

// snapshots returns the snapshots in a directory, the oldest first.
func snapshots(dir string) []snapshot {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var all []snapshot
	for _, e := range entries {
		parts := strings.Split(e.Name(), "-")
		if len(parts) != 3 {
			continue
		}
		term, termErr := strconv.ParseUint(parts[0], 10, 64)
		index, err := strconv.ParseUint(parts[1], 10, 64)
		if err = errors.Join(err, termErr); err != nil || strings.HasSuffix(e.Name(), ".tmp") {
			continue
		}
		all = append(all, snapshot{filepath.Join(dir, e.Name()), term, index})
	}
	slices.SortFunc(all, func(a, b snapshot) int { return cmp.Compare(a.index, b.index) })
	return all
}

// coverage reports whether the Raft log in a directory has every entry above after up to the end of a snapshot, and
// whether its stamp names the snapshot.
func coverage(dir string, newest snapshot, after uint64) (whole, marked bool, err error) {
	identity, err := storage.ReadIdentity(dir)
	if err != nil {
		return false, false, err
	}
	stable, err := raftboltdb.New(raftboltdb.Options{
		Path: filepath.Join(dir, storage.StableFile), BoltOptions: &bbolt.Options{ReadOnly: true},
	})
	if err != nil {
		return false, false, err
	}
	defer func() { err = errors.Join(err, stable.Close()) }()
	log, err := segments.Read(segments.Options{
		Folder: filepath.Join(dir, storage.LogFolder), Owner: uint64(identity.Directory), Stable: stable,
		Logger: hclog.NewNullLogger(),
	})
	if err != nil {
		return false, false, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	stamp, err := stable.Get([]byte("holdfast.stamp"))
	if err != nil {
		return false, false, err
	}
	marked = strings.Contains(string(stamp), `"id":"`+filepath.Base(newest.path)+`"`)
	var l raft.Log
	for index := after + 1; index <= newest.index; index++ {
		if err := log.GetLog(index, &l); errors.Is(err, raft.ErrLogNotFound) {
			return false, marked, nil
		} else if err != nil {
			return false, marked, err
		}
	}
	return l.Term == newest.term, marked, nil
}

// served records that a node has started on the disk.
func (o *olden) served(p *process) {
	if o.aside != "" && !o.serve {
		p.w.failf("%s has started although its newest snapshot is gone and its log does not go back to the one before",
			p.name)
	}
	if o.aside != "" {
		p.w.report.count("older snapshot served", 1)
	}
	*o = olden{}
}

// refused reports whether err refuses an unusable disk. If so it restores the snapshot, as the message demands.
func (o *olden) refused(p *process, err error) bool {
	if o.aside == "" || o.serve || !strings.Contains(err.Error(), refusal) {
		return false
	}
	back := filepath.Join(p.w.drives[p.name].path(), "snapshots", backName(o.aside))
	if err := os.Rename(o.aside, back); err != nil {
		p.w.failf("the disk of %s: %v", p.name, err)
	}
	*o = olden{}
	p.w.report.count("older snapshot refused", 1)
	return true
}

// backName returns raft's name of the snapshot, from its metadata.
func backName(path string) string {
	b, err := os.ReadFile(filepath.Join(path, "meta.json"))
	if err != nil {
		return "1-0-0"
	}
	_, rest, _ := strings.Cut(string(b), `"ID":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

// Empty implements faults.Disks. A node that has lost its disk has forgotten its votes and its acknowledgements, so the
// others admit it as a new node. A second disk is emptied only after that: data that only lost disks had is lost.
func (w *world) Empty(name string) bool {
	if w.roll != nil {
		return false // an operator would have to remove the node, and has other work
	}
	w.mu.Lock()
	lost := w.lost
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if lost && !w.agreed(ctx, name) {
		return false
	}
	w.mu.Lock()
	w.lost = true
	w.mu.Unlock()
	if err := os.RemoveAll(w.drives[name].path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.failf("the disk of %s: %v", name, err)
	}
	return true
}

// recovered checks that, long after the last fault, all nodes serve and agree with the leader.
func (w *world) recovered() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if !w.agree(ctx, "") {
		w.failf("%v after the last fault the nodes do not all serve and agree: %s", recovery, w.where())
	}
}

// agree waits until all nodes but one, "" for none, serve and have applied everything that the leader has applied. It
// reports whether they did before ctx ended.
func (w *world) agree(ctx context.Context, but string) bool {
	for ctx.Err() == nil {
		if w.agreed(ctx, but) {
			return true
		}
		sleep(ctx, 50*time.Millisecond)
	}
	return false
}

func (w *world) agreed(ctx context.Context, but string) bool {
	leader := w.life(w.Leader()).alive()
	if leader == nil {
		return false
	}
	status, err := leader.Status(ctx)
	if err != nil {
		return false
	}
	for _, name := range w.names {
		n := w.life(name).alive()
		if name == but || !w.roll.runs(name) {
			continue
		}
		if n == nil {
			return false
		}
		select {
		case <-n.Ready():
		default:
			return false
		}
		if _, ok := n.Digest(status.AppliedIndex); !ok {
			return false
		}
	}
	return true
}

// where returns the present state of each node.
func (w *world) where() string {
	var all []string
	for _, name := range w.names {
		n := w.life(name).alive()
		if n == nil {
			all = append(all, name+" is dead")
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		status, err := n.Status(ctx)
		cancel()
		all = append(all, fmt.Sprintf("%s leads %v, applied %d, %v", name, n.Leads(), status.AppliedIndex, err))
	}
	return strings.Join(all, "; ")
}
