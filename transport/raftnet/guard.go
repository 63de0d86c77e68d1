package raftnet

import (
	"errors"
	"net"
	"slices"
)

// guarded is a connection whose messages are scanned before Raft sees them. Like Raft's own connections it is read and
// written by one goroutine at a time; any other may close it.
type guarded struct {
	net.Conn
	scan scanner
	// rest was read and not yet given to Raft.
	rest []byte
	// refused is why nothing more is given.
	refused error
}

var errUnread = errors.New("raft answered a snapshot that it has not read")

// Read gives what is sound of what has come; then its error says what is not.
func (g *guarded) Read(b []byte) (int, error) {
	if g.refused != nil {
		return 0, g.refused
	}
	if len(g.rest) > 0 {
		n, err := g.pass(g.rest[:min(len(b), len(g.rest))])
		copy(b, g.rest[:n])
		g.rest = g.rest[n:]
		return n, err
	}
	n, err := g.Conn.Read(b)
	return g.take(b[:n], err)
}

// pending reports whether the next Read asks nothing of the connection.
func (g *guarded) pending() bool { return g.refused != nil || len(g.rest) > 0 }

// take judges what the connection has given with err, and returns what Read does.
func (g *guarded) take(b []byte, err error) (int, error) {
	passed, refused := g.pass(b)
	switch {
	case refused != nil:
		return 0, refused
	case passed < len(b):
		g.rest = slices.Clone(b[passed:])
		return passed, nil // the connection says its error again when the rest is read
	}
	return len(b), err
}

// pass returns how many of the bytes that have come may be given now. It is an error only when none may.
func (g *guarded) pass(b []byte) (int, error) {
	n, err := g.scan.pass(b)
	if err != nil {
		g.refused = err
	}
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// Write refuses the answer to a request whose snapshot has bytes left. Raft 1.7 reads nothing of the snapshot when it
// refuses a request for its version, and all of it otherwise: bytes that are left would be taken for requests, which
// nobody has scanned as such.
func (g *guarded) Write(b []byte) (int, error) {
	if g.scan.snapshot > 0 {
		return 0, errUnread // after which Raft closes the connection
	}
	return g.Conn.Write(b)
}
