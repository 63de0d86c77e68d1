package watch

import (
	"fmt"

	"holdfast/session"
	"holdfast/tree"
)

// Bounds of watches, in bytes as they are kept (V1).
const (
	// MaxConnectionBytes bounds the watches of a connection: 100,000 on paths of 64 bytes.
	MaxConnectionBytes = 16 << 20
	// MaxNodeBytes bounds the watches of all connections of a node. A principal holds no more than three times what is
	// free of it, see [fair.Room].
	MaxNodeBytes = 256 << 20
)

// recordBytes is what a connection's watches on a path take beside the path: the record and what lists it, with what
// slabs and indexes keep free. pathBytes is what a path takes beside its bytes.
const recordBytes, pathBytes = 48, 48

// bytesOf returns what a connection's watches on a path count. A path that many connections watch is kept once, and
// counts for each of them: what a connection may watch does not depend on strangers.
func bytesOf(path string) int { return recordBytes + pathBytes + len(path) }

// overConnection and overNode refuse a watch.
func overConnection(limit int) error {
	return &session.LimitError{
		Name: "watch_bytes_per_connection", Limit: fmt.Sprintf("%d bytes of watched paths, with %d for each", limit,
			recordBytes+pathBytes),
	}
}

func overNode(limit int) error {
	return &session.LimitError{
		Name: "watch_bytes_per_node", Limit: fmt.Sprintf("%d bytes of watched paths, with %d for each; one client, the subject "+
			"of a certificate or an address, may take three quarters of what others leave", limit, recordBytes+pathBytes),
	}
}

// checkWatch returns an error that names the field and its limit, unless there may be such a watch.
func checkWatch(path string, kind tree.WatchKind) error {
	if !kind.Valid() {
		return &session.FieldError{Field: "kind", Limit: "data, exists, child, persistent or recursive"}
	}
	return tree.CheckPath(path)
}
