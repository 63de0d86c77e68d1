package health

// Disk is the size of a file system as df counts it: space reserved for root counts as used.
type Disk struct {
	// Size and Free are in bytes. A Size of 0 is unknown.
	Size, Free uint64
}

const (
	// maxReserve is the largest default reserve: space for a snapshot of the default max_state_bytes, for the file
	// that it replaces, and for the remaining log.
	maxReserve = 4 << 30
	// A disk's default reserve is the reserveParts-th part of the disk, if that is less than maxReserve.
	reserveParts = 10
)

// Reserve returns the bytes that must be free on a disk under a disk_limit, 0 for the default. With less free space,
// the disk is full.
func (d Disk) Reserve(limit int) uint64 {
	if limit == 0 {
		return min(d.Size/reserveParts, maxReserve)
	}
	return d.Size / 100 * uint64(100-limit) //nolint:gosec // 1 to 100
}

// enough returns the bytes that must be free until a full disk is no longer full: half of the reserve more, or a
// quarter of the rest if that is less. Free space fluctuates while a snapshot is written and the log is cut after it.
func (d Disk) enough(limit int) uint64 {
	reserve := d.Reserve(limit)
	return reserve + min(reserve/2, (d.Size-reserve)/4)
}

// DiskOf returns the size of the file system of a directory. Only Linux is supported: elsewhere disk_limit has no
// effect.
func DiskOf(dir string) (Disk, error) { return diskOf(dir) }

// fullDisk says whether a disk is full. It becomes full below its reserve, and stops being full at [Disk.enough].
type fullDisk struct {
	limit int
	full  bool
}

// update processes the present size of the disk.
func (f *fullDisk) update(d Disk) (full, changed bool) {
	reserve, was := d.Reserve(f.limit), f.full
	switch {
	case d.Free < reserve:
		f.full = true
	case d.Free >= d.enough(f.limit):
		f.full = false
	}
	return f.full, f.full != was
}
