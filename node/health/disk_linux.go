package health

import (
	"fmt"
	"syscall"
)

func diskOf(dir string) (Disk, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return Disk{}, fmt.Errorf("reading the size of the disk of %s: %w", dir, err)
	}
	block := uint64(fs.Bsize) //nolint:gosec // not negative
	return Disk{Size: (fs.Blocks - fs.Bfree + fs.Bavail) * block, Free: fs.Bavail * block}, nil
}
