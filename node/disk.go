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
	case d.Free >= enough(reserve):
		f.is = false
	}
	return f.is, f.is != was
}

// enough returns how many bytes must be free on a disk with a reserve until it is no longer full. A snapshot that is
// written and the log that is cut after it move what is free to and fro.
func enough(reserve uint64) uint64 { return reserve + reserve/2 }
