package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	trees "holdfast/client/internal/core/tree"
	"holdfast/client/internal/writes"
	"holdfast/session"
	"holdfast/tree"
)

// Errors of the tree's API, besides those of the packages session and tree.
var (
	// ErrNoSession: a write through a [Tree] that [Client.Tree] has returned. Writes belong to a session: use
	// [Session.Tree].
	ErrNoSession = errors.New("writes need a session: use Session.Tree")
	// ErrResultGone: the session has ended, and the write was decided before, with success or a refusal. Its result is
	// gone (X9 writes in the certificate).
	ErrResultGone = trees.ErrResultGone
	// ErrNoEffect: the write had no effect and will have none. The error also wraps why.
	ErrNoEffect = trees.ErrNoEffect
)

// WritesLostError reports that the cluster knows fewer writes of the session than it has answered: the cluster was
// restored from a backup, or has lost its state. The session can write no more: open another session. A write that had
// not been sent also wraps [ErrNoEffect].
type WritesLostError = writes.LostError

// Tree reads, changes and watches the cluster's tree: small entries at paths such as /app/locks/a. [Session.Tree]
// returns a Tree for everything, [Client.Tree] a Tree for reads and watches. Safe for concurrent use.
//
// Paths begin with a slash and obey [tree.CheckPath]. All paths, also in results and errors, are relative to the tree's
// chroot, see [Tree.Chroot].
//
// A read at any node never shows an older state than this client has seen. A read may miss the newest state: see
// [Linearizable]. Reads of a session see its earlier writes, and its later writes come after them (G3 order in a
// session). A read that has to be sent again, because its node refused it temporarily or was lost, may see later writes
// too.
//
// Every call waits for a node until ctx ends, through lost connections and moves. Then the error wraps the cause of
// ctx and the last obstacle. Other errors:
//
//   - [*tree.RefusedError]: the tree has refused it. Test for one with
//     errors.Is(err, &tree.RefusedError{Code: tree.NoNode}). A refused write is also a [*tree.WriteError].
//   - [*tree.PathError], [session.FieldError]: the request is not valid.
//   - [session.LimitError]: a limit of the client or the node that waiting does not help.
//   - the error of [Session.Err] after the end of the session, [session.ErrClosed] after [Client.Close].
//   - [*WritesLostError]: a write of a session of which the cluster has lost writes.
//
// A write takes effect at most once, also when it is sent again after a lost connection or a move (X2 writers). The
// writes of a session take effect in the order of their calls (X1 numbered writes). A write that is called while 256
// others, or 4 MiB of them, are unanswered waits for its turn; more than 4,096 waiting writes, or 16 MiB, are refused
// with a [session.LimitError]. Writes copy their data: after the return the caller may change it.
//
// When the ctx of a write ends before the answer, the error also wraps [session.ErrOutcomeUnknown]: the client cancels
// the write if it still can (X6 giving up), and its outcome is not reported. The error wraps [ErrNoEffect] instead if
// the write was never sent. With [FailInFlight] the same happens when the connection is lost, except for writes with
// [UntilAnswered]. When a session ends, its certificate decides the error of a pending write (X9): [ErrNoEffect],
// [ErrResultGone] or [session.ErrOutcomeUnknown], with the error of [Session.Err].
type Tree struct {
	// begin returns the client's loop.
	begin func(ctx context.Context) (*loop, error)
	// session is nil for a tree without a session.
	session *Session
	// root is the chroot, empty for none.
	root     string
	defaults []ReadOption
}

// Tree returns the cluster's tree for reads and watches; its writes return [ErrNoSession]. Its root is [Client.Chroot].
// The options apply to each read.
func (c *Client) Tree(defaults ...ReadOption) *Tree {
	return &Tree{begin: c.begin, root: c.Chroot(), defaults: defaults}
}

// Tree returns the cluster's tree for the session: writes belong to the session, ephemeral entries end with the
// session, and reads are in order with its writes. Its root is [Client.Chroot]. The options apply to each read.
//
// The first write makes a local session global, see [Session.Upgrade]. When the cluster does not allow that, writes
// return [session.ErrLocalSession].
func (s *Session) Tree(defaults ...ReadOption) *Tree {
	begin := func(context.Context) (*loop, error) { return s.loop, nil }
	return &Tree{begin: begin, session: s, root: chrootOf(s.loop.cfg), defaults: defaults}
}

// Chroot returns the tree below path: its paths are relative to path. The entry at path need not exist.
func (t *Tree) Chroot(path string) (*Tree, error) {
	full, err := t.full(path)
	if err != nil {
		return nil, err
	}
	below := *t
	below.root = strings.TrimSuffix(full, "/")
	return &below, nil
}

// Root returns the path in the cluster's tree that the paths of t are relative to; "/" without a chroot.
func (t *Tree) Root() string {
	if t.root == "" {
		return tree.Root
	}
	return t.root
}

// full returns the path in the cluster's tree. The error is a [tree.PathError].
func (t *Tree) full(path string) (string, error) {
	if err := tree.CheckPath(path); err != nil {
		return "", err
	}
	if t.root == "" {
		return path, nil
	}
	full := t.root + strings.TrimSuffix(path, "/")
	return full, t.own(path, tree.CheckPath(full))
}

// own returns a path error of the cluster's tree with the application's path.
func (t *Tree) own(path string, err error) error {
	if wrong, is := errors.AsType[*tree.PathError](err); is {
		return &tree.PathError{Path: path, Why: "behind the chroot " + t.root + " " + wrong.Why}
	}
	return err
}

// fullPrefix is full for the path of a sequential create.
func (t *Tree) fullPrefix(prefix string) (string, error) {
	if err := tree.CheckPrefix(prefix); err != nil {
		return "", err
	}
	return t.root + prefix, t.own(prefix, tree.CheckPrefix(t.root+prefix))
}

// relative returns the path for the application of a path in the cluster's tree. A path that is not below the chroot
// stays as it is.
func (t *Tree) relative(path string) string {
	switch {
	case t.root == "":
		return path
	case path == t.root:
		return tree.Root
	case tree.Below(path, t.root):
		return path[len(t.root):]
	default:
		return path
	}
}

// wrap returns the error that the application gets: with the verb and the path of the call, unless the tree's own
// refusal has them, and with paths below the chroot.
func (t *Tree) wrap(verb, path string, err error) error {
	if err == nil {
		return nil
	}
	refused, ok := errors.AsType[*tree.RefusedError](err)
	if !ok {
		return fmt.Errorf("%s %s: %w", verb, path, err)
	}
	mine := *refused
	mine.Path = t.relative(refused.Path)
	if write, is := errors.AsType[*tree.WriteError](err); is {
		return &tree.WriteError{Refused: &mine, At: write.At, Stamp: write.Stamp}
	}
	return &mine
}

// chrootOf returns the path of the connect string, empty for none.
func chrootOf(cfg Config) string {
	if cfg.ConnectString == "" {
		return ""
	}
	parsed, _ := ParseConnectString(cfg.ConnectString) // New has checked it
	return parsed.Chroot
}

// SeenStamp returns the highest stamp that any node has reported to this client, 0 for none. No read of this client
// shows an older state. Another process that receives the stamp can wait for it with [Mirror.Wait]. The clients of a
// pool share the stamp. Safe for concurrent use.
func (c *Client) SeenStamp() tree.Stamp { return c.seen.stamp() }

// idOf returns the session's id, 0 without one.
func (t *Tree) idOf() session.ID {
	if t.session == nil {
		return 0
	}
	return t.session.id
}
