// Package writers removes duplicate writes: each write of a session takes effect exactly once (rules X2 to X5 and X9 of
// docs/tree.md). It also keeps the wills of U3. Only the replicated state uses it.
//
// A session that has written has a writer: the number of its newest applied write, and the results that its client has
// not acknowledged. A repeated write gets the kept result, and has no second effect.
//
// The package is pure: the result depends only on the input, so that replicas agree. Only the goroutine that applies
// the log writes a [Table]. [Root] is a frozen copy that any number of goroutines may read. Making a copy costs the
// same whatever the number of writers (D8 published roots).
//
// Results and wills are opaque bytes for this package.
package writers
