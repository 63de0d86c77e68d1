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
	n := copy(b, g.rest)
	g.rest = g.rest[n:]
	var err error
	if n == 0 {
		n, err = g.Conn.Read(b)
	}
	passed, refused := g.scan.pass(b[:n])
	if refused != nil {
		g.refused = refused
		if passed == 0 {
			return 0, refused
		}
		return passed, nil
	}
	if passed < n {
		g.rest = slices.Concat(b[passed:n], g.rest)
	}
	return passed, err
}

// Write refuses the answer to a request whose snapshot has bytes left: Raft does not read the snapshot when it refuses a
// request for its version (else it reads all of it), and would take the bytes for requests next, which nobody has scanned as such.
func (g *guarded) Write(b []byte) (int, error) {
	if g.scan.snapshot > 0 {
		g.refused = errUnread
		return 0, errUnread
	}
	return g.Conn.Write(b)
}
