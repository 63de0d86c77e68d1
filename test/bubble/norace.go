//go:build !race

package bubble

// Race reports whether the race detector is on.
const Race = false

// alone does nothing without the race detector.
func alone() (undo func()) { return func() {} }
