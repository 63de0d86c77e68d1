package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"holdfast/client"
	"holdfast/tree"
)

// chunk is the number of children that one job copies.
const chunk = 256

// directory is a parent whose children are being copied. One job alone writes each child.
type directory struct {
	path  string
	names []string
	made  int64
	// selected reports for each child whether the target should have it.
	selected []bool
	// left is the number of unfinished jobs.
	left atomic.Int64
}

// walk copies or compares the entry at the root and all entries below. It sees everything that was written at the
// source before.
func (r *run) walk(ctx context.Context) error {
	if err := r.from.Sync(ctx); err != nil {
		return err
	}
	n, found, err := r.from.Node(ctx, tree.Root)
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("%s: the source has no such entry", tree.Root)
	case n.Ephemeral:
		return fmt.Errorf("%s: is an ephemeral at the source, and ephemerals are not copied: use another chroot", tree.Root)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	jobs := newJobs()
	defer context.AfterFunc(ctx, jobs.end)()
	jobs.push(func() error { return r.one(ctx, jobs, tree.Root, n) })
	var workers sync.WaitGroup
	for range max(1, min(r.InFlight, MaxInFlight)) {
		workers.Go(func() {
			for job := jobs.pop(); job != nil; job = jobs.pop() {
				if err := job(); err != nil {
					cancel(err)
				}
				jobs.done()
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// one copies or compares an entry, and queues jobs for the entries below.
func (r *run) one(ctx context.Context, jobs *jobs, path string, n Node) error {
	r.count(func(c *Counts) {
		c.Entries++
		c.Bytes += int64(len(n.Data))
	})
	children, err := r.entry(ctx, path, n)
	if err != nil {
		return r.refused(path, err)
	}
	if children >= 0 && (n.Children != 0 || n.Made != 0 || children != 0) {
		jobs.push(func() error { return r.open(ctx, jobs, path) })
	}
	return nil
}

// open lists the children of an entry and queues jobs for them.
func (r *run) open(ctx context.Context, jobs *jobs, path string) error {
	c, found, err := r.from.Children(ctx, path)
	switch {
	case err != nil:
		return r.refused(path, err)
	case !found:
		r.count(func(c *Counts) { c.Vanished++ })
		return nil
	}
	slices.Sort(c.Names)
	d := &directory{path: path, names: c.Names, made: c.Made, selected: make([]bool, len(c.Names))}
	if len(d.names) == 0 {
		return r.finish(ctx, d)
	}
	d.left.Store(int64((len(d.names) + chunk - 1) / chunk))
	for from := range d.left.Load() {
		jobs.push(func() error { return r.children(ctx, jobs, d, int(from)*chunk) })
	}
	return nil
}

// children copies some children of a directory. After the last children it finishes the directory.
func (r *run) children(ctx context.Context, jobs *jobs, d *directory, from int) error {
	for i := from; i < min(from+chunk, len(d.names)); i++ {
		path := tree.Join(d.path, d.names[i])
		n, found, err := r.from.Node(ctx, path)
		switch {
		case err != nil:
			d.selected[i] = true
			if err = r.refused(path, err); err != nil {
				return err
			}
			continue
		case !found:
			r.count(func(c *Counts) { c.Vanished++ })
			continue
		case n.Ephemeral:
			r.count(func(c *Counts) { c.Ephemerals++ })
			continue
		}
		d.selected[i] = true
		if err := r.one(ctx, jobs, path, n); err != nil {
			return err
		}
	}
	if d.left.Add(-1) == 0 {
		return r.finish(ctx, d)
	}
	return nil
}

// finish does the work that needs all children: the counter of sequential names, and extra entries of the target.
func (r *run) finish(ctx context.Context, d *directory) error {
	err := r.counter(ctx, d)
	if err == nil {
		err = r.extras(ctx, d)
	}
	if err != nil {
		return r.refused(d.path, err)
	}
	return nil
}

// extras finds permanent entries below an entry that the source lacks, or has as ephemerals.
func (r *run) extras(ctx context.Context, d *directory) error {
	for after, more := "", true; more; {
		page, err := r.page(ctx, d.path, after)
		if isRefused(err, tree.NoNode) {
			return nil // a comparison has reported the entry itself, or the entry has ended
		}
		if err != nil {
			return err
		}
		for _, child := range page.Children {
			after = child.Name
			if err := r.checkExtra(ctx, d, child); err != nil {
				return err
			}
		}
		more = page.More
	}
	return nil
}

// page lists some children of the target, after a name.
func (r *run) page(ctx context.Context, path, after string) (client.Children, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	return r.to.ListPage(ctx, path, client.Listing{After: after, PageSize: tree.MaxPage, WithStat: true})
}

// checkExtra checks a child of the target. A temporary entry is no extra, but permanent entries below it keep it alive,
// so besides searches them too. Each directory on the way down holds one page of names.
func (r *run) checkExtra(ctx context.Context, d *directory, child tree.Child) error {
	path := tree.Join(d.path, child.Name)
	at, is := slices.BinarySearch(d.names, child.Name)
	switch wanted := is && d.selected[at]; {
	case wanted || isReserved(r.to.Root(), path):
		return nil
	case child.Hidden || child.Stat.Kind == tree.Persistent:
		return r.extra(ctx, path)
	case child.Stat.Children == 0:
		return nil
	}
	if err := r.extras(ctx, &directory{path: path}); err != nil {
		return r.refused(path, err)
	}
	return nil
}

// extra records an entry that only the target has, or deletes it with all entries below.
func (r *run) extra(ctx context.Context, path string) error {
	switch {
	case r.verifying():
		r.note(Problem{Path: path, Kind: Extra, Field: "entry", Why: "the source does not have it"})
		return nil
	case !r.Delete:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	removed, err := r.to.DeleteTree(ctx, path)
	if err != nil {
		return r.refused(path, err)
	}
	r.count(func(c *Counts) { c.Deleted += int64(removed.Entries) })
	return nil
}

// isReserved reports whether a path below root is the entry of ZooKeeper's own affairs, or below it.
func isReserved(root, path string) bool {
	full := strings.TrimSuffix(root, "/") + path
	return full == reserved || tree.Below(full, reserved)
}

// reserved is the entry of ZooKeeper's own affairs, on both sides.
const reserved = "/zookeeper"

// jobs are the remaining jobs, the newest first, so that few directories are open at a time. Their number is bounded by
// the directories on the way down, each with a job for 256 children. Safe for concurrent use.
type jobs struct {
	mu   sync.Mutex
	wake *sync.Cond
	// waiting have not started, running counts started jobs, ended stops further starts; guarded by mu.
	waiting []func() error
	running int
	ended   bool
}

func newJobs() *jobs {
	j := &jobs{}
	j.wake = sync.NewCond(&j.mu)
	return j
}

func (j *jobs) push(job func() error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiting = append(j.waiting, job)
	j.wake.Signal()
}

// pop waits for the next job; nil when all are done or the walk has ended. Each is followed by done.
func (j *jobs) pop() func() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.waiting) == 0 && j.running > 0 && !j.ended {
		j.wake.Wait()
	}
	if len(j.waiting) == 0 || j.ended {
		return nil
	}
	last := len(j.waiting) - 1
	job := j.waiting[last]
	j.waiting[last] = nil
	j.waiting = j.waiting[:last]
	j.running++
	return job
}

func (j *jobs) done() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.running--; j.running == 0 {
		j.wake.Broadcast()
	}
}

func (j *jobs) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = true
	j.wake.Broadcast()
}
