//go:build !linux

package segments

import "os"

// allocate sets a file's size.
func allocate(f *os.File, _, to int64) error { return f.Truncate(to) }

// syncData syncs a file.
func syncData(f *os.File) error { return f.Sync() }
