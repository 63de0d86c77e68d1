// Package simdisk models a disk with a volatile cache under a journalling file system: what programs see, and what
// would outlive a power cut. It is pure: no FUSE, no clock, no files.
//
// After a power cut:
//
//   - Data that was not fsynced is lost sector by sector: see [Tear]. A truncation or a growth may be lost, too.
//   - Names change in an ordered journal over all directories. An fsync of a directory makes its changes durable. An
//     fsync of a file makes the changes durable that gave it its names. Both include the earlier changes that these
//     rest on. Of the other changes a random prefix survives. ext4, XFS and btrfs do the same; POSIX promises less
//     about the name of an fsynced file in a directory that was not fsynced.
//   - A rename is atomic.
//   - An fsync that failed has made nothing durable, and a later successful fsync makes up for it. (Kernels differ
//     here.)
package simdisk

import (
	"maps"
	"slices"
	"sync"
	"syscall"
)

// Disk is one disk. Safe for concurrent use.
type Disk struct {
	mu   sync.Mutex
	root *Node // guarded by mu
	// last is the newest inode number.
	last uint64 // guarded by mu
	// journal holds the changes of names that are not durable, in order.
	journal []change // guarded by mu
	// full refuses every operation that needs new space.
	full bool // guarded by mu
}

// Node is a file or a directory. The disk's mu guards all fields that are not fixed.
type Node struct {
	// Ino, Dir and Mode (permission bits) are fixed.
	Ino  uint64
	Dir  bool
	Mode uint32

	live, durable []byte
	pending       []write

	// entries is what programs see in a directory, names what would outlive a power cut.
	entries, names map[string]*Node
}

// write is one write that is not durable. Without data it sets the file's size to off.
type write struct {
	off  int64
	data []byte
}

// change is one atomic change of names that is not durable: two entries for a rename, otherwise one.
type change []entry

// entry is what a name stands for after a change, nil for nothing.
type entry struct {
	dir  *Node
	name string
	node *Node
}

// New returns an empty disk.
func New() *Disk {
	d := &Disk{}
	d.root = d.node(true, 0o755)
	return d
}

// node makes a node. Called with mu held, except in New.
func (d *Disk) node(dir bool, mode uint32) *Node { //nolint:revive // flag-parameter: a file or a directory
	d.last++
	n := &Node{Ino: d.last, Dir: dir, Mode: mode & 0o777}
	if dir {
		n.entries, n.names = map[string]*Node{}, map[string]*Node{}
	}
	return n
}

// Root returns the root directory. A power cut replaces it, like every node.
func (d *Disk) Root() *Node {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.root
}

// SetFull sets whether writes, growth and new names are refused with ENOSPC if they need space. Overwriting a file's
// own bytes needs none.
func (d *Disk) SetFull(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

// Lookup returns what name stands for in dir.
func (d *Disk) Lookup(dir *Node, name string) (*Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := dir.entries[name]; n != nil {
		return n, nil
	}
	return nil, syscall.ENOENT
}

// List returns the names in dir, sorted, with what they stand for.
func (d *Disk) List(dir *Node) ([]string, []*Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := slices.Sorted(maps.Keys(dir.entries))
	nodes := make([]*Node, 0, len(names))
	for _, name := range names {
		nodes = append(nodes, dir.entries[name])
	}
	return names, nodes
}

// Create makes an empty file.
func (d *Disk) Create(dir *Node, name string, mode uint32) (*Node, error) {
	return d.create(dir, name, func() *Node { return d.node(false, mode) })
}

// Mkdir makes an empty directory.
func (d *Disk) Mkdir(dir *Node, name string, mode uint32) (*Node, error) {
	return d.create(dir, name, func() *Node { return d.node(true, mode) })
}

func (d *Disk) create(dir *Node, name string, node func() *Node) (*Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case dir.entries[name] != nil:
		return nil, syscall.EEXIST
	case d.full:
		return nil, syscall.ENOSPC
	}
	n := node()
	d.change(entry{dir, name, n})
	return n, nil
}

// Remove removes the name of a file, or of an empty directory if dir is set.
func (d *Disk) Remove(in *Node, name string, dir bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch n := in.entries[name]; {
	case n == nil:
		return syscall.ENOENT
	case n.Dir && !dir:
		return syscall.EISDIR
	case !n.Dir && dir:
		return syscall.ENOTDIR
	case len(n.entries) > 0:
		return syscall.ENOTEMPTY
	}
	d.change(entry{in, name, nil})
	return nil
}

// Rename gives the node with the name from in dir the name to in other. It replaces the node that has this name.
func (d *Disk) Rename(dir *Node, from string, other *Node, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, old := dir.entries[from], other.entries[to]
	switch {
	case n == nil:
		return syscall.ENOENT
	case n == old:
		return nil
	case old != nil && old.Dir && len(old.entries) > 0:
		return syscall.ENOTEMPTY
	case old != nil && old.Dir && !n.Dir:
		return syscall.EISDIR
	case old != nil && !old.Dir && n.Dir:
		return syscall.ENOTDIR
	}
	d.change(entry{dir, from, nil}, entry{other, to, n})
	return nil
}

// change makes a change of names. Programs see it at once. Called with mu held.
func (d *Disk) change(c ...entry) {
	for _, e := range c {
		set(e.dir.entries, e)
	}
	d.journal = append(d.journal, c)
}

func set(in map[string]*Node, e entry) {
	if e.node == nil {
		delete(in, e.name)
		return
	}
	in[e.name] = e.node
}

// commit makes the changes of names durable for which wanted reports true, together with the earlier changes of the
// same directories, on which they rest. So the changes of a directory never survive out of order. Called with mu held.
func (d *Disk) commit(wanted func(entry) bool) {
	dirs := map[*Node]bool{}
	picked := make([]bool, len(d.journal))
	for i, c := range slices.Backward(d.journal) {
		picked[i] = slices.ContainsFunc(c, func(e entry) bool { return dirs[e.dir] || wanted(e) })
		if picked[i] {
			for _, e := range c {
				dirs[e.dir] = true
			}
		}
	}
	var rest []change
	for i, c := range d.journal {
		if !picked[i] {
			rest = append(rest, c)
			continue
		}
		for _, e := range c {
			set(e.dir.names, e)
		}
	}
	d.journal = rest
}
