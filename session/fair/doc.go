// Package fair divides what clients share: a [Queue] divides the time of a server, a [Room] divides a number of bytes.
// In both, a source that asks for much delays itself and leaves the others their part.
package fair
