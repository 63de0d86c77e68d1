package node

// Disk is how much of a file system there is, as df counts it: what is kept back for root is no room.
type Disk struct {
	// Size and Free are in bytes. A Size of 0 says that they are not known.
	Size, Free uint64
}

const (
	// mostReserve is the largest reserve of a disk with the default disk_limit: room for a snapshot of the default
	// max_state_bytes, for the file that it replaces, and for the log that is kept.
	mostReserve = 4 << 30
	// reserveParts is the part of a disk that is its reserve by default, if that is less.
	reserveParts = 10
)

// Reserve returns how many bytes must be free on a disk with a disk_limit: with less the disk is full.
func (d Disk) Reserve(limit int) uint64 {
	if limit == 0 {
		return min(d.Size/reserveParts, mostReserve)
	}
	return d.Size / 100 * uint64(100-limit) //nolint:gosec // 1 to 100
}

// DiskOf returns how much room the file system of a directory has. It knows that on Linux only: elsewhere disk_limit has
// no effect.
func DiskOf(dir string) (Disk, error) { return diskOf(dir) }

// fullDisk says whether a disk is full, which it is from one mark on, and until it has come back to a higher one.
type fullDisk struct {
	limit int
	is    bool
}

// look takes how much room there is.
func (f *fullDisk) look(d Disk) (full, changed bool) {
	reserve, was := d.Reserve(f.limit), f.is
	switch {
	case d.Free < reserve:
		f.is = true
	case d.Free >= d.enough(f.limit):
		f.is = false
	}
	return f.is, f.is != was
}

// enough returns how many bytes must be free on a disk with a disk_limit until it is no longer full: half of the reserve
// more, or a quarter of the rest if that is less. A snapshot that is written and the log that is cut after it move what is
// free to and fro.
func (d Disk) enough(limit int) uint64 {
	reserve := d.Reserve(limit)
	return reserve + min(reserve/2, (d.Size-reserve)/4)
}
