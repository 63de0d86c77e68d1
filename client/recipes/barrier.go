package recipes

import (
	"context"
	"errors"

	"holdfast/client"
	"holdfast/tree"
)

// Barrier holds up everybody who comes to it, until somebody lowers it. It is raised as long as its entry exists, which
// belongs to no session. Safe for concurrent use.
//
//	          Raise
//	LOWERED ---------> RAISED: Wait waits
//	   ^                  |
//	   |      Lower       |
//	   +------------------+
type Barrier struct {
	in   *client.Tree
	path string
}

// NewBarrier returns the barrier at a path. It asks the cluster for nothing.
func NewBarrier(s *client.Session, path string) *Barrier { return &Barrier{s.Tree(), path} }

// Raise raises the barrier; it may be raised already.
func (b *Barrier) Raise(ctx context.Context) error {
	err := check(b.path)
	if err == nil {
		_, err = b.in.Create(ctx, b.path, nil, client.CreateOptions{Parents: true})
	}
	if errors.Is(err, &tree.RefusedError{Code: tree.NodeExists}) {
		err = nil
	}
	return failed("raise", b.path, err)
}

// Lower lets go all who wait; the barrier may be lowered already.
func (b *Barrier) Lower(ctx context.Context) error {
	err := check(b.path)
	if err == nil {
		_, err = b.in.Delete(ctx, b.path)
	}
	if errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) {
		err = nil
	}
	return failed("lower", b.path, err)
}

// Wait waits until the barrier is lowered; it returns at once if it is. What this client has done before counts: a
// barrier that it raised is raised. What others have done a moment ago may not have come to the asked node.
func (b *Barrier) Wait(ctx context.Context) error {
	if err := check(b.path); err != nil {
		return failed("wait at", b.path, err)
	}
	for {
		changed := client.NewOneShot()
		_, exists, err := b.in.Exists(ctx, b.path, client.WithWatch(changed))
		if err == nil && exists {
			_, err = changed.Wait(ctx)
		}
		changed.Stop()
		if err != nil || !exists {
			return failed("wait at", b.path, err)
		}
	}
}
