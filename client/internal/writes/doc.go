// Package writes numbers the writes of one session at its client process, and tracks the fate of each write: rules X1,
// X4, X6, X8 and X9 of docs/tree.md. It decides what is sent next and when, how to handle a refusal, which writes are
// sent again after a resume, and which report a caller gets that has stopped waiting.
//
// The package is pure: it reads no clock, does no I/O and starts no goroutine.
package writes
