package system

import (
	"context"
	"errors"
	"time"

	"holdfast/tree"
)

// ErrNoEntry says that there is no entry at a path.
var ErrNoEntry = errors.New("no such entry")

// watcherTimeout is that of the session of a client that watches. Servers lower it to 40 s.
const watcherTimeout = time.Minute

// Treed is a Conn to a cluster with a tree of entries.
type Treed interface {
	// OpenWriter is Open for a session that writes to the tree, through this connection.
	OpenWriter(timeout time.Duration, done func(Session, error))
	// Create makes an entry, persistent or ephemeral.
	Create(s Session, path string, data []byte, kind tree.Kind, done func(error))
	// Set replaces an entry's data.
	Set(s Session, path string, data []byte, done func(error))
	// Read returns an entry's data from the server's own state, in no order with the session's writes if the protocol
	// allows that. The data is valid until done returns. The error is ErrNoEntry if there is no entry.
	Read(s Session, path string, done func(data []byte, err error))
}

// Ordered is a Treed whose reads see the session's earlier writes.
type Ordered interface {
	Treed
	InOrder()
}

// Newest is a Treed with reads that show everything that was written before they began.
type Newest interface {
	Treed
	// ReadNewest is Read, linearizable.
	ReadNewest(s Session, path string, done func(data []byte, err error))
}

// Watcher is a client that receives events of changes.
type Watcher interface {
	// Watch sets a data watch or a recursive one for the client, which has a session, and calls onEvent once for each
	// event. An error passed to onEvent means that no more events follow.
	Watch(path string, kind tree.WatchKind, onEvent, done func(error))
	// End drops the watcher's connection.
	End()
}

// Observed is a Cluster that many clients can watch.
type Observed interface {
	// Watchers connects n clients to a server, as many on a connection as the server accepts.
	Watchers(ctx context.Context, server, n int) ([]Watcher, error)
}
