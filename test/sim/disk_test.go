package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/test/sim/faults"
)

// drive is the disk of one node, through all its lives. Each life writes to its own directory, which starts as a copy
// of the former life's. After a kill, later work of the process does not reach its successor.
type drive struct {
	dir string // for the directories of all lives
	// old is used by the fault, and by the node's start. The two never run at the same time.
	old olden

	mu   sync.Mutex
	rand *rand.Rand // guarded by mu
	life int        // guarded by mu; the number of the next life's directory
	now  state      // guarded by mu
	hits int        // guarded by mu; how many writes met a fault
	// alter, when set, changes entries on their way to the disk and to the node's memory, until it returns true.
	// guarded by mu
	alter func(all []*raft.Log) bool
}

// state is the fault of a drive. mended is closed when the fault ends, delay is the time of a write to a slow drive.
type state struct {
	damage faults.Damage
	mended chan struct{}
	delay  time.Duration
	// reaches reports that a failing write reaches the disk all the same.
	reaches bool
}

var (
	errGone = errors.New("the process is gone")
	errIO   = fmt.Errorf("write to a broken disk: %w", syscall.EIO)
	errFull = fmt.Errorf("write to a full disk: %w", syscall.ENOSPC)
)

// path returns the directory of the next or present life.
func (d *drive) path() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return filepath.Join(d.dir, fmt.Sprint(d.life))
}

// breaks damages the drive until undo is called. undo reports whether a write was hit. It reports false when the drive
// is damaged already.
func (d *drive) breaks(damage faults.Damage, delay time.Duration) (undo func() bool, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now.damage != 0 {
		return nil, false
	}
	d.now = state{damage: damage, delay: delay, mended: make(chan struct{})}
	before := d.hits
	return func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		close(d.now.mended)
		d.now = state{}
		return d.hits > before
	}, true
}

// healthy returns a channel that is closed when the drive is mended, nil when it is not damaged.
func (d *drive) healthy() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now.mended
}

// nextFault returns the present state for a write. Half of the failing writes reach the disk all the same.
func (d *drive) nextFault() state {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.now
	if s.damage != 0 {
		d.hits++
		s.reaches = d.rand.IntN(2) == 0
	}
	return s
}

// disk is a drive as one life of a node writes its log to it.
type disk struct {
	drive *drive
	dir   string
	gone  chan struct{} // closed when it is sealed
	// logs is Raft's log, below all faults. Set before the node begins to apply.
	logs raft.LogStore

	mu     sync.Mutex
	sealed bool // guarded by mu
	// hurt is set when a write met a fault. The node may leave then. guarded by mu
	hurt bool
	// failed, when set, is called for each write that failed. Set before the process begins.
	failed func()
	// tear, when set, kills the process at the next write. guarded by mu
	tear func()
	torn bool // guarded by mu
}

func (d *drive) disk() *disk {
	return &disk{drive: d, dir: d.path(), gone: make(chan struct{})}
}

// wrap is node.Platform.Disk.
func (k *disk) wrap(logs raft.LogStore, stable raft.StableStore) (raft.LogStore, raft.StableStore) {
	k.logs = logs
	return &diskLogs{logs, k}, &diskStable{stable, k}
}

func (k *disk) wasHurt() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hurt
}

// write makes a write to the log meet the drive's faults.
func (k *disk) write(do func() error) error {
	met := k.drive.nextFault()
	if met.damage != 0 {
		k.mu.Lock()
		k.hurt = true
		k.mu.Unlock()
	}
	switch met.damage {
	case faults.Slow:
		if !k.wait(met.mended, met.delay) {
			return errGone
		}
	case faults.Hung:
		if !k.wait(met.mended, 0) {
			return errGone
		}
	case faults.Full:
		return k.fails(errFull)
	case faults.Failing:
		if met.reaches {
			return k.fails(errors.Join(errIO, k.through(do)))
		}
		return k.fails(errIO)
	}
	return k.through(do)
}

func (k *disk) fails(err error) error {
	if k.failed != nil {
		k.failed()
	}
	return err
}

// wait waits until the disk is mended, for at most d, 0 for no bound. It reports whether the process still lives.
func (k *disk) wait(mended <-chan struct{}, d time.Duration) bool {
	var passed <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-mended:
		return true
	case <-passed:
		return true
	case <-k.gone:
		return false
	}
}

// through does the write, or tears it.
func (k *disk) through(do func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sealed {
		return errGone
	}
	if k.tear == nil {
		return do()
	}
	before, err := readImage(k.dir)
	if err != nil {
		return err
	}
	if err = do(); err != nil {
		return err
	}
	after, err := readImage(k.dir)
	if err != nil {
		return err
	}
	k.drive.mu.Lock()
	left := before.torn(k.drive.rand, after)
	k.drive.mu.Unlock()
	if err = k.leave(left); err != nil {
		panic(err) // the simulation's own disk is broken
	}
	k.torn = true
	k.tear()
	return errGone
}

// tearNext kills the process by f at its next write. happened reports whether this was done.
func (k *disk) tearNext(f func()) (happened func() bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tear = f
	return func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.tear = nil
		return k.torn
	}
}

// seal stops all writes to the disk. The next life finds what is there now.
func (k *disk) seal() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.leave(nil)
}

// leave copies what is on the disk for the next life, with left in place of Raft's files, if it is set. The caller holds
// mu.
func (k *disk) leave(left image) error {
	if k.sealed {
		return nil
	}
	k.sealed = true
	close(k.gone)
	k.drive.mu.Lock()
	defer k.drive.mu.Unlock()
	k.drive.life++
	next := filepath.Join(k.drive.dir, fmt.Sprint(k.drive.life))
	if err := copyDir(next, k.dir); err != nil {
		return err
	}
	if left == nil {
		var err error
		if left, err = readImage(k.dir); err != nil {
			return err
		}
	}
	return left.write(next)
}

// image has the content of Raft's files, by path in the data directory. A path that ends with / is a folder.
type image map[string][]byte

// readImage reads what a crash now would leave. raft-wal makes a new segment in the background, and changes raft.db
// before and after it.
func readImage(dir string) (image, error) {
	const file, folder = "raft.db", "log"
	for {
		all := image{}
		content, err := os.ReadFile(filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all[file] = content
		before, err := os.ReadDir(filepath.Join(dir, folder))
		if err == nil {
			all[folder+"/"] = nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range before {
			name := filepath.Join(folder, e.Name())
			if all[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
		again, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}
		after, err := os.ReadDir(filepath.Join(dir, folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		same := func(a, b fs.DirEntry) bool { return a.Name() == b.Name() }
		if bytes.Equal(content, again) && slices.EqualFunc(before, after, same) {
			return all, nil
		}
	}
}

// write replaces Raft's files in a directory.
func (m image) write(dir string) error {
	for _, name := range []string{"raft.db", "log"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m)) { // a folder before its files
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			continue
		}
		if err := os.WriteFile(path, m[name], 0o600); err != nil {
			return err
		}
	}
	return nil
}

// torn returns what a power cut may leave of the write that turns m into after: an append to a segment, or a commit of
// raft.db, which may delete segments afterwards.
func (m image) torn(r *rand.Rand, after image) image {
	left := maps.Clone(m)
	appended := false
	for name, content := range m {
		now, there := after[name]
		if name == "raft.db" || !there || bytes.Equal(content, now) {
			continue
		}
		left[name] = tornAppend(r, content, now)
		appended = true
	}
	if !appended {
		left["raft.db"] = tornCommit(r, m["raft.db"], after["raft.db"])
	}
	return left
}

// tornAppend returns what a power cut may leave of an append: any of its sectors.
func tornAppend(r *rand.Rand, before, after []byte) []byte {
	left := append(bytes.Clone(before), make([]byte, max(0, len(after)-len(before)))...)
	part := 1.0
	if r.IntN(2) == 0 {
		part = r.Float64()
	}
	for at := 0; at < len(after); at += sector {
		if end := min(at+sector, len(after)); part == 1 || r.Float64() < part {
			copy(left[at:end], after[at:end])
		}
	}
	return left
}

// copyDir copies a directory in which snapshots may come and go meanwhile. A file that has gone is left out.
func copyDir(to, from string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if e.IsDir() {
			if err = copyDir(target, source); err != nil {
				return err
			}
			continue
		}
		content, err := os.ReadFile(source)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err = os.WriteFile(target, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

const (
	sector = 512
	// metaPages is the number of pages at the front of a bbolt file of which a commit writes one last, after a sync.
	metaPages = 2
)

// tornCommit returns what a power cut may leave of a bbolt commit that turns before into after. The commit first writes
// the pages, in any order, then syncs, and then writes a meta page, which is smaller than a sector.
func tornCommit(r *rand.Rand, before, after []byte) []byte {
	metas := metaPages * os.Getpagesize()
	image := bytes.Clone(before)
	grow := func(size int) {
		if size > len(image) {
			image = append(image, make([]byte, size-len(image))...)
		}
	}
	part := 1.0
	if r.IntN(2) == 0 {
		part = r.Float64() // the cut came before the first sync
	}
	if r.IntN(2) == 0 || part == 1 {
		grow(len(after))
	}
	for at := metas; at < len(after); at += sector {
		end := min(at+sector, len(after))
		if part < 1 && r.Float64() > part {
			continue
		}
		grow(end)
		copy(image[at:end], after[at:end])
	}
	if part == 1 && r.IntN(2) == 0 {
		copy(image[:metas], after[:metas])
	}
	return image
}

type diskLogs struct {
	raft.LogStore
	disk *disk
}

func (l *diskLogs) StoreLog(one *raft.Log) error { return l.StoreLogs([]*raft.Log{one}) }

func (l *diskLogs) StoreLogs(all []*raft.Log) error {
	l.disk.drive.altered(all)
	return l.disk.write(func() error { return l.LogStore.StoreLogs(all) })
}

// altered passes entries to alter.
func (d *drive) altered(all []*raft.Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.alter != nil && d.alter(all) {
		d.alter = nil
	}
}

func (l *diskLogs) DeleteRange(first, last uint64) error {
	return l.disk.write(func() error { return l.LogStore.DeleteRange(first, last) })
}

type diskStable struct {
	raft.StableStore
	disk *disk
}

func (s *diskStable) Set(key, value []byte) error {
	return s.disk.write(func() error { return s.StableStore.Set(key, value) })
}

func (s *diskStable) SetUint64(key []byte, value uint64) error {
	return s.disk.write(func() error { return s.StableStore.SetUint64(key, value) })
}
