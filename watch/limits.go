package watch

import (
	"fmt"

	"holdfast/session"
	"holdfast/tree"
)

// Bounds of watches, in bytes of memory (V1 kinds of watches).
const (
	// MaxConnectionBytes bounds the watches of a connection: 100,000 on paths of 64 bytes.
	MaxConnectionBytes = 16 << 20
	// MaxNodeBytes bounds the watches of all connections of a node. A principal may hold at most three times the free
	// part, see [fair.Budget].
	MaxNodeBytes = 256 << 20
)

// recordBytes is the memory of a connection's watches on a path besides the path: the record, its list entries, and the
// free space of slabs and indexes. pathBytes is the memory of a path besides its text.
const recordBytes, pathBytes = 48, 48

// bytesOf returns the bytes that a path counts for each connection that watches it. The table keeps a shared path once
// but counts it for each connection, so that a connection's limit does not depend on other clients.
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
		Name: "watch_bytes_per_node", Limit: fmt.Sprintf("%d bytes of watched paths, with %d for each; one client "+
			"(certificate subject or address) may use three quarters of the bytes that others do not use", limit,
			recordBytes+pathBytes),
	}
}

// checkWatch returns an error that names the field and its limit if the watch is not valid.
func checkWatch(path string, kind tree.WatchKind) error {
	if !kind.Valid() {
		return &session.FieldError{Field: "kind", Limit: "data, exists, child, persistent or recursive"}
	}
	return tree.CheckPath(path)
}
