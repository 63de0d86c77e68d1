//go:build !race

package bubble

// Race says that the race detector is on.
const Race = false

// alone is for the race detector.
func alone() (undo func()) { return func() {} }
