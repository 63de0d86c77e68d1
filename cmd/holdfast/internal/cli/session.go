package cli

import (
	"context"
	"errors"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/tree"
)

// writerTimeout is the timeout of the sessions that commands open to write.
const writerTimeout = 10 * time.Second

// WriteHelp is part of the help of every command that writes to the tree.
const WriteHelp = `A write belongs to a session: the command opens one, writes, and closes it.`

// Write runs f with the tree of a new session, and closes the session.
func (e *Env) Write(ctx context.Context, f func(ctx context.Context, t *client.Tree) error) error {
	return e.Cluster.Connect(func(cl *client.Client) error {
		return e.WithSession(ctx, cl, e.SessionFor("write", writerTimeout),
			func(ctx context.Context, s *client.Session) error { return f(ctx, s.Tree()) })
	})
}

// SessionFor returns the options of a session that a command opens for its own work. The label holdfast names the work.
func (*Env) SessionFor(work string, timeout time.Duration) client.SessionOptions {
	return client.SessionOptions{Timeout: timeout, Labels: map[string]string{"holdfast": work}}
}

// WithSession opens a session, runs f with it, and closes it.
func (e *Env) WithSession(ctx context.Context, cl *client.Client, o client.SessionOptions,
	f func(ctx context.Context, s *client.Session) error,
) error {
	s, err := Timed(ctx, e.Cluster, func(ctx context.Context) (*client.Session, error) { return cl.Open(ctx, o) })
	if err != nil {
		return err
	}
	defer e.closeSession(ctx, s)
	return f(ctx, s)
}

// closeSession closes a session, also when ctx has ended. A failure is only a message: the work of the session is done,
// and the session expires by its timeout.
func (e *Env) closeSession(ctx context.Context, s *client.Session) {
	ctx, cancel := e.Cluster.WithTimeout(context.WithoutCancel(ctx))
	defer cancel()
	if err := s.Close(ctx); err != nil && !errors.Is(err, session.ErrExpired) {
		e.Out.Messagef("holdfast: close session %v: %s\n", s.ID(), OneLine(err))
	}
}

// Children returns the children of an entry; each page is a call with its own time limit. Children stops when it has
// more than limit children; a negative limit is no limit.
func (e *Env) Children(ctx context.Context, t *client.Tree, path string, l client.Listing, limit int,
) ([]tree.Child, error) {
	l.PageSize = tree.MaxPage
	var all []tree.Child
	for {
		page, err := Timed(ctx, e.Cluster, func(ctx context.Context) (client.Children, error) {
			return t.ListPage(ctx, path, l)
		})
		all = append(all, page.Children...)
		if err != nil || !page.More || len(page.Children) == 0 || limit >= 0 && len(all) > limit {
			return all, err
		}
		l.After = all[len(all)-1].Name
	}
}

// IsRefused reports whether the tree refused an operation for a reason.
func IsRefused(err error, code tree.Code) bool {
	return errors.Is(err, &tree.RefusedError{Code: code})
}
