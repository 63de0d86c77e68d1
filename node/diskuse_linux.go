package node

import (
	"fmt"
	"syscall"
)

// diskUse returns a function that reads which share of the file system of a directory is used, 0 to 1, as df counts it:
// what is kept back for root is no room.
func diskUse(dir string) func() (float64, error) {
	return func() (float64, error) {
		var fs syscall.Statfs_t
		if err := syscall.Statfs(dir, &fs); err != nil {
			return 0, fmt.Errorf("reading the room on the disk of %s: %w", dir, err)
		}
		used := fs.Blocks - fs.Bfree
		if used+fs.Bavail == 0 {
			return 0, nil // a file system that counts no blocks
		}
		return float64(used) / float64(used+fs.Bavail), nil
	}
}
