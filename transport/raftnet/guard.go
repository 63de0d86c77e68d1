package raftnet

import (
	"errors"
	"net"
	"slices"
)

// scannedConn is a connection whose messages are scanned before Raft reads them. As on Raft's own connections, one
// goroutine at a time reads and writes, and any other may close it.
type scannedConn struct {
	net.Conn
	scan scanner
	// rest are bytes that Raft has not read yet.
	rest []byte
	// refused is why Raft may read no more bytes.
	refused error
}

var errUnread = errors.New("raft answered a request whose snapshot it has not read")

// Read returns the valid bytes that have arrived. Its error says why the next bytes are invalid.
func (g *scannedConn) Read(b []byte) (int, error) {
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
	return g.scanBytes(b[:n], err)
}

// pending reports whether the next Read returns without reading from the connection.
func (g *scannedConn) pending() bool { return g.refused != nil || len(g.rest) > 0 }

// scanBytes scans bytes that the connection returned with err, and returns the results of Read.
func (g *scannedConn) scanBytes(b []byte, err error) (int, error) {
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

// pass returns the number of bytes that Raft may read now. It returns an error only when there are none.
func (g *scannedConn) pass(b []byte) (int, error) {
	n, err := g.scan.pass(b)
	if err != nil {
		g.refused = err
	}
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// Write refuses the answer to a request whose snapshot has unread bytes. Raft 1.7 reads no byte of the snapshot when it
// refuses a request for its version, and all bytes otherwise. The unread bytes would be decoded as requests without
// having been scanned as requests.
func (g *scannedConn) Write(b []byte) (int, error) {
	if g.scan.snapshot > 0 {
		return 0, errUnread // Raft then closes the connection
	}
	return g.Conn.Write(b)
}
