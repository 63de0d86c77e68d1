// Package fair divides what clients share: a [Room] divides a number of bytes. A client that asks for much is refused or
// waits, and leaves the others their part.
package fair
