package simdisk

import (
	"slices"
	"syscall"
)

// maxSize bounds a file: a test's disk is in memory.
const maxSize = 1 << 30

// Size returns the size that programs see.
func (d *Disk) Size(n *Node) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(len(n.live))
}

// Read copies what programs see at off into to. It returns the number of bytes.
func (d *Disk) Read(n *Node, to []byte, off int64) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if off >= int64(len(n.live)) {
		return 0
	}
	return copy(to, n.live[off:])
}

// Write changes what programs see. It is durable after the next [Disk.Sync]. data is copied.
func (d *Disk) Write(n *Node, data []byte, off int64) error {
	if len(data) == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.write(n, write{off, slices.Clone(data)})
}

// Resize truncates a file, or extends it with zeros.
func (d *Disk) Resize(n *Node, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.write(n, write{off: size})
}

func (d *Disk) write(n *Node, w write) error {
	end := w.off + int64(len(w.data))
	switch {
	case end > maxSize:
		return syscall.EFBIG
	case d.full && end > int64(len(n.live)):
		return syscall.ENOSPC
	}
	n.live = w.apply(n.live)
	n.pending = append(n.pending, w)
	return nil
}

// apply returns content after the write.
func (w write) apply(content []byte) []byte {
	if w.data == nil {
		return resize(content, w.off)
	}
	content = grow(content, w.off+int64(len(w.data)))
	copy(content[w.off:], w.data)
	return content
}

func grow(content []byte, size int64) []byte {
	if int64(len(content)) >= size {
		return content
	}
	return resize(content, size)
}

func resize(content []byte, size int64) []byte {
	if size <= int64(len(content)) {
		return content[:size]
	}
	return append(content, make([]byte, size-int64(len(content)))...)
}

// Sync makes a file and the changes that gave it its names durable, or the names in a directory.
func (d *Disk) Sync(n *Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n.Dir {
		d.commit(func(e entry) bool { return e.dir == n })
		return
	}
	for _, w := range n.pending {
		n.durable = w.apply(n.durable)
	}
	n.pending = nil
	d.commit(func(e entry) bool { return e.node == n })
}

// Pending returns how many writes, bytes in them, and changes of names are not durable.
func (d *Disk) Pending() (writes, bytes, names int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.walk(d.root, func(n *Node) {
		writes += len(n.pending)
		for _, w := range n.pending {
			bytes += len(w.data)
		}
	})
	return writes, bytes, len(d.journal)
}

// walk visits every node that programs can reach. Called with mu held.
func (d *Disk) walk(n *Node, visit func(*Node)) {
	visit(n)
	for _, child := range n.entries {
		d.walk(child, visit)
	}
}
