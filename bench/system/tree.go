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

// Watcher is a client that hears of changes.
type Watcher interface {
	// Watch sets a data watch or a recursive one for the client, which has a session, and has told called once for each
	// event.
	// An error given to told says that there will be no more.
	Watch(path string, kind tree.WatchKind, told, done func(error))
	// End drops the watcher's connection.
	End()
}

// Observed is a Cluster that many clients can watch.
type Observed interface {
	// Watchers connects n clients to a server, as many on a connection as the server takes.
	Watchers(ctx context.Context, server, n int) ([]Watcher, error)
}
