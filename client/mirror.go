package client

import (
	"context"
	"iter"

	"holdfast/tree"
)

// Mirror keeps an up-to-date copy of an entry and all entries below it in memory, with a recursive watch. Its reads
// cost no message. For each entry a read shows a state that existed, and never goes back: but the mirror lags behind
// the cluster, and of two entries one may be newer than the other. See [Mirror.Wait]. When the cluster starts anew or
// is restored, the mirror reads everything again, and its stamp may go back. Safe for concurrent use.
type Mirror struct{ copied *mirrored }

// Mirror returns a mirror of path, once it has all that is there. The entry need not exist. Call [Mirror.Close] at the
// end. ctx bounds the first filling alone; the error then wraps its cause and the last obstacle.
//
// Entries that the client may not read are missing, and so are the entries below them until their next change, because
// no listing names them. Changes of access lists cause no event: an entry that becomes readable shows with its next
// change. An entry that becomes hidden stays as it was, even when it is deleted, until the mirror has lost events and
// reads everything again.
func (t *Tree) Mirror(ctx context.Context, path string) (*Mirror, error) {
	m, err := t.mirror(ctx, path)
	if err != nil {
		return nil, t.wrap("mirror", path, err)
	}
	return &Mirror{m}, nil
}

// Get returns an entry, and whether the entry exists. Its Stamp is [Mirror.Stamp]. Callers must not change its Data.
func (m *Mirror) Get(path string) (Entry, bool) { return m.copied.get(path) }

// List returns the names of an entry's children in their order.
func (m *Mirror) List(path string) []string { return m.copied.list(path) }

// Walk yields the entry at path and all entries below, parents first and siblings in the order of their names, from one
// state of the mirror.
func (m *Mirror) Walk(path string) iter.Seq2[string, Entry] { return m.copied.walk(path) }

// Stamp returns the stamp up to which the mirror is known to show all changes. Stamp rises with [Mirror.Wait], and when
// the mirror has read everything again. A change that the mirror shows does not prove that it shows all changes before.
func (m *Mirror) Stamp() tree.Stamp { return m.copied.stamp() }

// Wait returns once the mirror shows all changes up to a stamp of a write, by this client or by another process that
// has sent the stamp. The error wraps the cause of ctx when ctx ends first, and [session.ErrLagging] if the nodes have
// not applied the stamp, or is that of [Mirror.Err]. Wait delays no other call of the client.
func (m *Mirror) Wait(ctx context.Context, stamp tree.Stamp) error { return m.copied.wait(ctx, stamp) }

// Changes returns a channel that is closed with the next change of the mirror after the call, and at its end.
func (m *Mirror) Changes() <-chan struct{} { return m.copied.changes() }

// Err returns why the mirror has ended; nil while it is kept up to date.
func (m *Mirror) Err() error { return m.copied.err() }

// Close ends the mirror, and waits for its goroutine. Its reads show the last state.
func (m *Mirror) Close() { m.copied.close() }
