// Package writers keeps what makes each write of a session take effect exactly once: rules X2 to X5 and X9 of
// docs/tree.md, and the wills of U3. It is for the replicated state alone.
//
// A session that has written has a writer: the number of its newest applied write, and the results that its client has
// not acknowledged. So a write that comes twice is answered with its first result, and takes no second effect.
//
// The package is pure: what it does depends on its input alone, so that replicas agree. [Table] is written by the
// goroutine that applies the log. [Root] is a frozen copy, made at a cost that does not depend on the number of writers
// (D8), which any number of goroutines may read.
//
// Results and wills are bytes that this package does not read.
package writers
