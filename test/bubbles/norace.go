//go:build !race

package bubbles

// alone is for the race detector.
func alone() (undo func()) { return func() {} }
