package raftnet

import (
	"errors"
	"net"
	"slices"
)

// guarded is a connection whose messages are scanned before Raft sees them. As on Raft's own connections, one goroutine
// at a time reads and writes, and any other may close it.
type guarded struct {
	net.Conn
	scan scanner
	// rest are bytes that were read and not yet given to Raft.
	rest []byte
	// refused is why no more bytes are given to Raft.
	refused error
}

var errUnread = errors.New("raft answered a request whose snapshot it has not read")

// Read returns the valid bytes that have come. Its error then says what is wrong with the next ones.
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

// pending reports whether the next Read returns without reading from the connection.
func (g *guarded) pending() bool { return g.refused != nil || len(g.rest) > 0 }

// take scans bytes that the connection returned with err, and returns the results of Read.
func (g *guarded) take(b []byte, err error) (int, error) {
	passed, refused := g.pass(b)
	switch {
	case refused != nil:
		return 0, refused
	case passed < len(b):
		g.rest = slices.Clone(b[passed:])
		return passed, nil // the connection returns err again after the rest
	}
	return len(b), err
}

// pass returns how many of the bytes may be given to Raft now. It returns an error only when none may.
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
// refuses a request for its version, and all of it otherwise. Bytes that are left would be taken for requests without
// having been scanned as requests.
func (g *guarded) Write(b []byte) (int, error) {
	if g.scan.snapshot > 0 {
		return 0, errUnread // Raft then closes the connection
	}
	return g.Conn.Write(b)
}
