package client

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"holdfast/session"
	"holdfast/tree"
)

// ReadOption changes a read.
type ReadOption func(*readOptions)

type readOptions struct {
	linearizable, stale bool
	once                *OneShot
}

// Linearizable makes a read show everything that was committed anywhere when the read started (G5 linearizable reads).
// It costs a round trip to the leader. By default a read shows at least everything that this client has seen.
func Linearizable() ReadOption { return func(o *readOptions) { o.linearizable, o.stale = true, false } }

// AllowStale lets a node answer that knows no leader, or is far behind the leader (G6 stale nodes refuse). The answer
// is still not older than the state that this client has seen.
func AllowStale() ReadOption { return func(o *readOptions) { o.linearizable, o.stale = false, true } }

// WithWatch makes a read set a one-shot watch, atomically with the read (G2 atomic reads). [Tree.Get] sets a data
// watch, [Tree.Exists] a watch that also reports creation, [Tree.ListPage] a child watch; other reads refuse it with a
// [session.FieldError]. w must be fresh from [NewOneShot]. A read with an error has set no watch.
func WithWatch(w *OneShot) ReadOption { return func(o *readOptions) { o.once = w } }

// Entry is the result of [Tree.Get].
type Entry struct {
	// Data is nil for an entry without data.
	Data []byte
	Stat tree.Stat
	// Stamp is the position of the read: the answer shows all changes up to Stamp, and none above.
	Stamp tree.Stamp
}

// Get returns an entry. The error is a [tree.RefusedError] with [tree.NoNode] if there is none.
func (t *Tree) Get(ctx context.Context, path string, o ...ReadOption) (Entry, error) {
	a, err := t.read(ctx, "get", path, tree.Query{Kind: tree.GetEntry}, o)
	return Entry{Data: a.Data, Stat: a.Stat, Stamp: a.Stamp}, err
}

// Exists returns an entry's stat, and whether the entry exists.
func (t *Tree) Exists(ctx context.Context, path string, o ...ReadOption) (tree.Stat, bool, error) {
	a, err := t.read(ctx, "look for", path, tree.Query{Kind: tree.GetStat}, o)
	return a.Stat, a.Exists, err
}

// Listing selects children, and what to return of each.
type Listing struct {
	// After is the name behind which the page begins; empty for the first page.
	After string
	// Backward lists from the last name to the first: After then excludes itself and all later names.
	Backward bool
	// PageSize is 1 to [tree.MaxPage]; 0 is [tree.DefaultPage]. A page may have fewer children though there are more.
	PageSize int
	// WithData asks for the data and stats of the children, WithStat for their stats.
	WithData, WithStat bool
}

// Children is a page of an entry's children, in the order of their names.
type Children struct {
	Children []tree.Child
	// More reports further children after the last name.
	More bool
	// Stat is the parent's. Its ChildrenModified shows whether children came or went between two pages.
	Stat tree.Stat
	// Stamp is as in [Entry].
	Stamp tree.Stamp
}

// ListPage returns one page of an entry's children.
func (t *Tree) ListPage(ctx context.Context, path string, l Listing, o ...ReadOption) (Children, error) {
	q := tree.Query{
		Kind: tree.ListChildren, After: l.After, PageSize: l.PageSize, WithData: l.WithData, WithStat: l.WithStat,
		Backward: l.Backward,
	}
	a, err := t.read(ctx, "list", path, q, o)
	return Children{Children: a.Children, More: a.More, Stat: a.Stat, Stamp: a.Stamp}, err
}

// List yields an entry's children in the order of their names, page by page: each page is a read of its own, and
// children may come and go between two. An error is yielded last.
func (t *Tree) List(ctx context.Context, path string, l Listing, o ...ReadOption) iter.Seq2[tree.Child, error] {
	return pages(l, func(l *Listing) ([]tree.Child, bool, error) {
		page, err := t.ListPage(ctx, path, *l, o...)
		if n := len(page.Children); n > 0 {
			l.After = page.Children[n-1].Name
		}
		return page.Children, page.More, err
	})
}

// pages yields the entries of all pages. Each loop that ranges over pages starts with the page that first requests;
// next returns a page, and changes its argument to request the following page.
func pages[Q, E any](first Q, next func(*Q) (page []E, more bool, err error)) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		q := first
		for more := true; more; {
			page, further, err := next(&q)
			for _, one := range page {
				if !yield(one, nil) {
					return
				}
			}
			if err != nil {
				yield(*new(E), err)
				return
			}
			more = further && len(page) > 0
		}
	}
}

// AccessList is the result of [Tree.GetACL].
type AccessList struct {
	// ACL is the list in force. The hashes of digests are hidden from clients without [tree.Admin].
	ACL tree.ACL
	// Inherited reports whether the list is that of an entry above.
	Inherited bool
	// Stat is that of the requested entry.
	Stat tree.Stat
	// Stamp is as in [Entry].
	Stamp tree.Stamp
}

// GetACL returns the access list in force for an entry.
func (t *Tree) GetACL(ctx context.Context, path string, o ...ReadOption) (AccessList, error) {
	a, err := t.read(ctx, "get ACL", path, tree.Query{Kind: tree.GetACL}, o)
	return AccessList{ACL: a.ACL, Inherited: a.Inherited, Stat: a.Stat, Stamp: a.Stamp}, err
}

// Ephemerals is a page of a session's ephemeral entries.
type Ephemerals struct {
	Paths []string
	// More reports further entries after the last path.
	More bool
	// Stamp is as in [Entry].
	Stamp tree.Stamp
}

// EphemeralsOf says which ephemeral entries to list.
type EphemeralsOf struct {
	// Session is the owner.
	Session session.ID
	// Prefix is a prefix of the paths, and starts with a slash: /a is a prefix of /ab too. Empty selects all entries
	// below the chroot.
	Prefix string
	// After is the path behind which the page begins, and begins with a slash; empty for the first page.
	After string
	// PageSize is as in [Listing].
	PageSize int
}

// EphemeralsPage returns a page of the paths of a session's ephemeral entries. The error is a [session.FieldError] if
// Prefix or After does not begin with a slash: behind a chroot it would lead to the chroot's neighbours.
func (t *Tree) EphemeralsPage(ctx context.Context, of EphemeralsOf, o ...ReadOption) (Ephemerals, error) {
	q, err := t.ephemerals(of)
	if err != nil {
		return Ephemerals{}, fmt.Errorf("list ephemerals of %s: %w", of.Session, err)
	}
	a, err := t.query(ctx, q, o)
	if err != nil {
		return Ephemerals{}, fmt.Errorf("list ephemerals of %s: %w", of.Session, err)
	}
	page := Ephemerals{More: a.More, Stamp: a.Stamp}
	for _, path := range a.Paths {
		page.Paths = append(page.Paths, t.relative(path))
	}
	return page, nil
}

// ephemerals returns the query of [Tree.EphemeralsPage], with paths of the cluster's tree.
func (t *Tree) ephemerals(of EphemeralsOf) (tree.Query, error) {
	prefix := of.Prefix
	if prefix == "" && t.root != "" {
		prefix = tree.Root // excludes a neighbour whose name starts like the chroot's
	}
	q := tree.Query{Kind: tree.ListEphemerals, Owner: uint64(of.Session), PageSize: of.PageSize, Path: t.root + prefix}
	if of.After != "" {
		q.After = t.root + of.After
	}
	return q, cmp.Or(slashFirst("prefix", of.Prefix), slashFirst("after", of.After))
}

// slashFirst refuses text that is not empty and does not begin with a slash.
func slashFirst(field, text string) error {
	if text != "" && !strings.HasPrefix(text, tree.Root) {
		return &session.FieldError{Field: field, Limit: "empty or begin with a slash"}
	}
	return nil
}

// Ephemerals yields the paths of a session's ephemeral entries in their order, page by page as [Tree.List] does.
func (t *Tree) Ephemerals(ctx context.Context, of EphemeralsOf, o ...ReadOption) iter.Seq2[string, error] {
	return pages(of, func(of *EphemeralsOf) ([]string, bool, error) {
		page, err := t.EphemeralsPage(ctx, *of, o...)
		if n := len(page.Paths); n > 0 {
			of.After = page.Paths[n-1]
		}
		return page.Paths, page.More, err
	})
}

// CheckFence reports whether token belongs to the present holder of a lock (H1 fencing tokens): the entry at path
// exists, was created by the change with this stamp, and its owner lives. CheckFence is linearizable.
func (t *Tree) CheckFence(ctx context.Context, path string, token tree.Stamp) (bool, error) {
	a, err := t.read(ctx, "check fence", path, tree.Query{Kind: tree.CheckFence, Token: token}, nil)
	return a.Holds, err
}

// Sync returns a stamp that includes all that was committed anywhere when the call began. Later reads of this client
// show at least that.
func (t *Tree) Sync(ctx context.Context) (tree.Stamp, error) {
	return t.syncBeyond(ctx, 0)
}

// syncBeyond is Sync at a node that has applied a stamp. Other reads do not wait for a stamp that no node may ever
// reach.
func (t *Tree) syncBeyond(ctx context.Context, stamp tree.Stamp) (tree.Stamp, error) {
	a, err := t.query(ctx, tree.Query{Kind: tree.Sync, Options: tree.ReadOptions{Seen: stamp}}, nil)
	return a.Stamp, t.wrap("sync", tree.Root, err)
}

// read is query for an entry, with the errors that the application gets.
func (t *Tree) read(ctx context.Context, verb, path string, q tree.Query, o []ReadOption) (tree.Answer, error) {
	full, err := t.full(path)
	if err != nil {
		return tree.Answer{}, t.wrap(verb, path, err)
	}
	q.Path = full
	a, err := t.query(ctx, q, o)
	return a, t.wrap(verb, path, err)
}

// query carries out a read.
func (t *Tree) query(ctx context.Context, q tree.Query, o []ReadOption) (tree.Answer, error) {
	var with readOptions
	for _, all := range [][]ReadOption{t.defaults, o} {
		for _, set := range all {
			set(&with)
		}
	}
	if q.PageSize < 0 || q.PageSize > tree.MaxPage {
		return tree.Answer{}, &session.FieldError{Field: "page_size", Limit: fmt.Sprintf("0 to %d", tree.MaxPage)}
	}
	if err := cmp.Or(textGiven("after", q.After), textGiven("prefix", q.Path)); err != nil {
		return tree.Answer{}, err
	}
	if with.once != nil && q.WatchKind() == 0 {
		return tree.Answer{}, &session.FieldError{Field: "watch", Limit: "not set with this read"}
	}
	q.Session = uint64(t.idOf())
	if q.Kind != tree.CheckFence && q.Kind != tree.Sync {
		q.Options.Linearizable, q.Options.AllowStale = with.linearizable, with.stale
	}
	l, err := t.begin(ctx)
	if err != nil {
		return tree.Answer{}, err
	}
	return l.read(ctx, t, q, with.once)
}

// textGiven refuses text that is not UTF-8. No message can hold such text: the stream that should send it ends, and the
// next stream has to send it again.
func textGiven(field, text string) error {
	if !utf8.ValidString(text) {
		return &session.FieldError{Field: field, Limit: "text in UTF-8"}
	}
	return nil
}
