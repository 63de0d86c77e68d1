//go:build e2e

package disk

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"holdfast/client"
	"holdfast/session"
	"holdfast/tree"
)

// Paths of the ledger's entries: each session has an ephemeral, and one under which it makes sequential entries.
func ephemeralOf(a *account) string { return fmt.Sprintf("/ephemerals/%d", a.op) }
func madeBy(a *account) string      { return fmt.Sprintf("/made/%d", a.op) }

// entries is the record of one session's writes to the tree. Its worker owns it while it works.
type entries struct {
	// began says that the session's first write was acknowledged: an ephemeral, and the entry for the others.
	began bool
	// made are the paths of acknowledged creates, in their order. asked counts those that were asked for.
	made  []string
	asked int
}

// write makes one more entry of a session, or the first two.
func (l *ledger) write(ctx context.Context, a *account) {
	t, e := a.held.Tree(), &a.entries
	if !e.began {
		_, err := t.Transact(ctx, tree.Transaction{Then: []tree.Op{
			tree.Create{Path: ephemeralOf(a), Kind: tree.Ephemeral, Parents: true},
			tree.Create{Path: madeBy(a), Kind: tree.Persistent, Parents: true},
		}})
		if e.began = err == nil; e.began {
			l.wrote()
			return
		}
		l.refused(ctx, a, err)
		return
	}
	e.asked++
	created, err := t.Create(ctx, madeBy(a)+"/", []byte("x"), client.CreateOptions{Sequential: true})
	if err != nil {
		l.refused(ctx, a, err)
		return
	}
	e.made = append(e.made, created.Path)
	l.wrote()
}

func (l *ledger) wrote() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Written++
}

// refused records a write that has no result. The first one may have taken effect without an answer: then a repeat
// finds its entries.
func (l *ledger) refused(ctx context.Context, a *account, err error) {
	switch {
	case errors.Is(err, &tree.RefusedError{Code: tree.NodeExists}) && !a.entries.began:
		a.entries.began = true
	case errors.Is(err, session.ErrMoved):
	default:
		l.unanswered(ctx, err, "write of session %s (open %d)", a.id, a.op)
	}
}

// compareTree compares what was acknowledged of the tree with a linearizable read: an ephemeral is there exactly while
// its session is (I12 no orphans), an acknowledged entry is there once, and nothing is there that nobody asked for (I9
// once).
func (l *ledger) compareTree(ctx context.Context, found map[int]session.Session) error {
	t := l.c.asker.Tree(client.Linearizable())
	owners := map[string]session.ID{}
	for child, err := range t.List(ctx, "/ephemerals", client.Listing{WithStat: true}) {
		if errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) {
			break
		}
		if err != nil {
			return fmt.Errorf("list ephemerals: %w", err)
		}
		owners[child.Name] = session.ID(child.Stat.Owner)
	}
	for _, a := range l.accounts {
		owner, there := owners[fmt.Sprint(a.op)]
		_, lives := found[a.op]
		switch {
		case there && (!lives || owner != a.id):
			l.breach("I12: %s is there, owned by %s; session %s of open %d lives: %v", ephemeralOf(a), owner, a.id, a.op, lives)
		case !there && lives && a.entries.began:
			// A close whose outcome is not known may have come between the two reads.
			now, err := l.c.asker.Get(ctx, a.id)
			if err != nil {
				return fmt.Errorf("read session %s: %w", a.id, err)
			}
			if now.Certificate == nil {
				l.breach("I12: %s is lost, and its session %s lives", ephemeralOf(a), a.id)
			}
		}
		if !a.entries.began {
			continue
		}
		if err := l.compareMade(ctx, t, a); err != nil {
			return err
		}
	}
	return nil
}

// compareMade compares the sequential entries of one session.
func (l *ledger) compareMade(ctx context.Context, t *client.Tree, a *account) error {
	var there []string
	for child, err := range t.List(ctx, madeBy(a), client.Listing{}) {
		if err != nil {
			return fmt.Errorf("list %s: %w", madeBy(a), err)
		}
		there = append(there, madeBy(a)+"/"+child.Name)
	}
	e := &a.entries
	if len(there) > e.asked {
		l.breach("I9: %d entries below %s, and %d were asked for", len(there), madeBy(a), e.asked)
	}
	for _, path := range e.made {
		if !slices.Contains(there, path) {
			l.breach("I9: %s was acknowledged, and is lost", path)
		}
	}
	if !slices.IsSorted(e.made) {
		l.breach("I10: the entries below %s were made in the order %v", madeBy(a), e.made)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Entries += len(there)
	return nil
}
