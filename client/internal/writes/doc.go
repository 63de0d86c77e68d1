// Package writes numbers the writes of one session at its client process, and knows what became of each: rules X1, X4,
// X6, X8 and X9 of docs/tree.md. It decides what is sent next and when, what a refusal means, which writes are sent
// again after a resume, and what a caller hears who waits no longer.
//
// The package is pure: it reads no clock, does no I/O and starts no goroutine.
package writes
