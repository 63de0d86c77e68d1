// Package jute is the wire format of ZooKeeper's clients: frames, primitives, and the records of the requests and
// replies that a client of ZooKeeper 3.9 can exchange with a server. The numbers in comments, such as N-01, are the
// rules of the description of ZooKeeper that the front end was built from.
//
// Integers are big-endian (N-03). A buffer, a string and a vector begin with their length, -1 for null. A record is its
// fields in order. Trailing bytes of a frame are ignored (N-05).
//
// A decoder never allocates more than a small multiple of its input: it checks each claimed length against the rest of
// the input.
package jute
