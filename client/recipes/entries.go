package recipes

import (
	"context"
	"fmt"
	"strings"

	"holdfast/client"
	"holdfast/session"
	"holdfast/tree"
)

// entries is the tree as recipes write to it: with [client.UntilAnswered], whatever the client's InFlight. A recipe
// that gives up a write with an unknown outcome would leave its entry in the line, and while the session lives the
// entry would block all callers behind it.
type entries struct{ *client.Tree }

func entriesOf(s *client.Session) entries { return entries{s.Tree()} }

// entriesWithin is entriesOf with the paths of another tree.
func entriesWithin(s *client.Session, other *client.Tree) (entries, error) {
	own, root := s.Tree(), other.Root()
	if root == own.Root() {
		return entries{own}, nil
	}
	if !tree.Below(root, own.Root()) {
		return entries{}, &session.FieldError{
			Field: "tree", Limit: fmt.Sprintf("within %s, the chroot of the session's client, and not at %s", own.Root(), root),
		}
	}
	below, err := own.Chroot("/" + strings.TrimLeft(root[len(own.Root()):], "/"))
	return entries{below}, err
}

// Create is that of the tree.
func (e entries) Create(ctx context.Context, path string, data []byte, o client.CreateOptions) (client.Created, error) {
	return e.Tree.Create(ctx, path, data, o, client.UntilAnswered())
}

// Set changes an entry that has this version.
func (e entries) Set(ctx context.Context, path string, data []byte, version int64) error {
	_, err := e.Tree.Set(ctx, path, data, client.Version(version), client.UntilAnswered())
	return err
}

// Delete is that of the tree.
func (e entries) Delete(ctx context.Context, path string) error {
	_, err := e.Tree.Delete(ctx, path, client.UntilAnswered())
	return err
}

// Transact is that of the tree.
func (e entries) Transact(ctx context.Context, x tree.Transaction) (client.Transacted, error) {
	return e.Tree.Transact(ctx, x, client.UntilAnswered())
}
