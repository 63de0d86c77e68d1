package faultfs

import (
	"context"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"holdfast/test/disk/simdisk"
)

// blockSize is the size of a block in answers to programs.
const blockSize = 4096

// mounted is a disk with the gate in front of it.
type mounted struct {
	disk *simdisk.Disk
	gate *gate
}

// node makes one of the disk's nodes a node of the mounted file system. There is no file handle: reads and writes name
// the node. After a power cut every name leads to a new node, so the kernel never uses its cache of an old one.
type node struct {
	fs.Inode
	on *mounted
	at *simdisk.Node // nil for the root, which a power cut replaces
}

var (
	_ fs.NodeLookuper  = (*node)(nil)
	_ fs.NodeReaddirer = (*node)(nil)
	_ fs.NodeGetattrer = (*node)(nil)
	_ fs.NodeSetattrer = (*node)(nil)
	_ fs.NodeStatfser  = (*node)(nil)
	_ fs.NodeOpener    = (*node)(nil)
	_ fs.NodeCreater   = (*node)(nil)
	_ fs.NodeMkdirer   = (*node)(nil)
	_ fs.NodeUnlinker  = (*node)(nil)
	_ fs.NodeRmdirer   = (*node)(nil)
	_ fs.NodeRenamer   = (*node)(nil)
	_ fs.NodeReader    = (*node)(nil)
	_ fs.NodeWriter    = (*node)(nil)
	_ fs.NodeFsyncer   = (*node)(nil)
	_ fs.NodeFlusher   = (*node)(nil)
)

func (n *node) diskNode() *simdisk.Node {
	if n.at == nil {
		return n.on.disk.Root()
	}
	return n.at
}

func (n *node) child(ctx context.Context, at *simdisk.Node, out *fuse.EntryOut) *fs.Inode {
	mode := uint32(syscall.S_IFREG)
	if at.Dir {
		mode = syscall.S_IFDIR
	}
	n.on.attr(at, &out.Attr)
	return n.NewInode(ctx, &node{on: n.on, at: at}, fs.StableAttr{Mode: mode, Ino: at.Ino})
}

func (m *mounted) attr(at *simdisk.Node, out *fuse.Attr) {
	out.Mode, out.Nlink, out.Blksize = syscall.S_IFREG|at.Mode, 1, blockSize
	if at.Dir {
		out.Mode, out.Nlink = syscall.S_IFDIR|at.Mode, 2
	}
	out.Size = uint64(m.disk.Size(at))
	out.Blocks = (out.Size + 511) / 512
}

// Lookup finds a name.
func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := n.on.gate.enter(Look); errno != 0 {
		return nil, errno
	}
	at, err := n.on.disk.Lookup(n.diskNode(), name)
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	return n.child(ctx, at, out), 0
}

// Readdir lists names.
func (n *node) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	if errno := n.on.gate.enter(Look); errno != 0 {
		return nil, errno
	}
	names, nodes := n.on.disk.List(n.diskNode())
	entries := make([]fuse.DirEntry, 0, len(names))
	for i, name := range names {
		mode := uint32(syscall.S_IFREG)
		if nodes[i].Dir {
			mode = syscall.S_IFDIR
		}
		entries = append(entries, fuse.DirEntry{Name: name, Ino: nodes[i].Ino, Mode: mode})
	}
	return fs.NewListDirStream(entries), 0
}

// Getattr returns size and mode.
func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if errno := n.on.gate.enter(Look); errno != 0 {
		return errno
	}
	n.on.attr(n.diskNode(), &out.Attr)
	return 0
}

// Setattr changes the size. It accepts owners, modes and times, and forgets them: nothing here depends on them.
func (n *node) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		if errno := n.on.gate.enter(Write); errno != 0 {
			return errno
		}
		if err := n.on.gate.done(n.on.disk.Resize(n.diskNode(), int64(size))); err != nil {
			return fs.ToErrno(err)
		}
	}
	n.on.attr(n.diskNode(), &out.Attr)
	return 0
}

// Statfs reports free space. A full disk refuses operations when they need space.
func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	*out = fuse.StatfsOut{
		Blocks: 1 << 18, Bfree: 1 << 17, Bavail: 1 << 17, Files: 1 << 16, Ffree: 1 << 15,
		Bsize: blockSize, Frsize: blockSize, NameLen: 255,
	}
	return 0
}

// Open opens a file.
func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.on.gate.enter(Look); errno != 0 {
		return nil, 0, errno
	}
	if flags&syscall.O_TRUNC == 0 {
		return nil, 0, 0
	}
	if errno := n.on.gate.enter(Write); errno != 0 {
		return nil, 0, errno
	}
	return nil, 0, fs.ToErrno(n.on.disk.Resize(n.diskNode(), 0))
}

// Create makes a file and opens it.
func (n *node) Create(ctx context.Context, name string, _, mode uint32,
	out *fuse.EntryOut,
) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	child, errno := n.make(ctx, out, func() (*simdisk.Node, error) {
		return n.on.disk.Create(n.diskNode(), name, mode)
	})
	return child, nil, 0, errno
}

// Mkdir makes a directory.
func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.make(ctx, out, func() (*simdisk.Node, error) { return n.on.disk.Mkdir(n.diskNode(), name, mode) })
}

func (n *node) make(ctx context.Context, out *fuse.EntryOut,
	create func() (*simdisk.Node, error),
) (*fs.Inode, syscall.Errno) {
	if errno := n.on.gate.enter(Name); errno != 0 {
		return nil, errno
	}
	at, err := create()
	if n.on.gate.done(err) != nil {
		return nil, fs.ToErrno(err)
	}
	return n.child(ctx, at, out), 0
}

// Unlink removes a file.
func (n *node) Unlink(_ context.Context, name string) syscall.Errno {
	return n.on.name(func() error { return n.on.disk.Remove(n.diskNode(), name, false) })
}

// Rmdir removes an empty directory.
func (n *node) Rmdir(_ context.Context, name string) syscall.Errno {
	return n.on.name(func() error { return n.on.disk.Remove(n.diskNode(), name, true) })
}

// Rename moves a name. Flags such as RENAME_EXCHANGE are not supported.
func (n *node) Rename(_ context.Context, name string, parent fs.InodeEmbedder, to string, flags uint32) syscall.Errno {
	other, ok := parent.(*node)
	if !ok || flags != 0 {
		return syscall.EINVAL
	}
	return n.on.name(func() error { return n.on.disk.Rename(n.diskNode(), name, other.diskNode(), to) })
}

func (m *mounted) name(change func() error) syscall.Errno {
	if errno := m.gate.enter(Name); errno != 0 {
		return errno
	}
	return fs.ToErrno(change())
}

// Read reads content.
func (n *node) Read(_ context.Context, _ fs.FileHandle, to []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if errno := n.on.gate.enter(Read); errno != 0 {
		return nil, errno
	}
	return fuse.ReadResultData(to[:n.on.disk.Read(n.diskNode(), to, off)]), 0
}

// Write changes content.
func (n *node) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	if errno := n.on.gate.enter(Write); errno != 0 {
		return 0, errno
	}
	if err := n.on.gate.done(n.on.disk.Write(n.diskNode(), data, off)); err != nil {
		return 0, fs.ToErrno(err)
	}
	return uint32(len(data)), 0
}

// Fsync implements fsync and fdatasync, of files and directories.
func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	if errno := n.on.gate.enter(Sync); errno != 0 {
		return errno
	}
	if !n.on.gate.lies() {
		n.on.disk.Sync(n.diskNode())
	}
	return 0
}

// Flush runs at each close, and does nothing. It is never held, so that a killed program can end.
func (n *node) Flush(context.Context, fs.FileHandle) syscall.Errno { return 0 }
