package client

import (
	"context"
	"iter"

	"holdfast/tree"
)

// Mirror keeps a copy of an entry and all below it in memory, and keeps it up to date with a recursive watch. Its reads
// cost no message. They show a state that existed for each entry, and never go back: but the mirror lags behind the
// cluster, and of two entries one may be newer than the other. See [Mirror.Wait]. When the cluster is begun anew or
// restored, the mirror reads everything anew, and its stamp may go back. Safe for concurrent use.
type Mirror struct{ copied *mirrored }

// Mirror returns a mirror of path, once it has all that is there. The entry need not exist. Call [Mirror.Close] at the
// end. ctx bounds the first filling alone; the error then wraps its cause and the last obstacle.
//
// Entries that the client may not read are missing from it, and so are those below them until their next change,
// since nothing lists them. Nobody is told when an access list changes: an entry that becomes readable shows with its
// next change, and one that is hidden from then on stays as it was, even when it is gone, until the mirror has lost
// events and reads everything anew.
func (t *Tree) Mirror(ctx context.Context, path string) (*Mirror, error) {
	m, err := t.mirror(ctx, path)
	if err != nil {
		return nil, t.wrap("mirror", path, err)
	}
	return &Mirror{m}, nil
}

// Get returns an entry, and whether there is one. Its Stamp is [Mirror.Stamp]. Its Data must not be changed.
func (m *Mirror) Get(path string) (Entry, bool) { return m.copied.get(path) }

// List returns the names of an entry's children in their order.
func (m *Mirror) List(path string) []string { return m.copied.list(path) }

// Walk yields the entry at path and all below it, parents first and siblings in the order of their names. It shows one
// state of the mirror.
func (m *Mirror) Walk(path string) iter.Seq2[string, Entry] { return m.copied.walk(path) }

// Stamp returns the stamp up to which the mirror is known to show all changes. It rises with [Mirror.Wait], and when
// everything was read anew: a change that the mirror shows does not say that it shows all before it.
func (m *Mirror) Stamp() tree.Stamp { return m.copied.stamp() }

// Wait returns once the mirror shows all changes up to a stamp: of a write of this client, or one that another process
// has sent. The error wraps the cause of ctx when that ends first, and [session.ErrLagging] if the nodes have not come
// to the stamp, or is that of [Mirror.Err]. The wait holds up no other call of the client.
func (m *Mirror) Wait(ctx context.Context, stamp tree.Stamp) error { return m.copied.wait(ctx, stamp) }

// Changes returns a channel that is closed with the next change of the mirror after the call, and at its end.
func (m *Mirror) Changes() <-chan struct{} { return m.copied.changes() }

// Err returns why the mirror has ended; nil while it is kept up to date.
func (m *Mirror) Err() error { return m.copied.err() }

// Close ends the mirror, and waits for its goroutine. Its reads show the last state.
func (m *Mirror) Close() { m.copied.close() }
