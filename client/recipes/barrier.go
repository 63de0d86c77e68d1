package recipes

import (
	"context"
	"errors"

	"holdfast/client"
	"holdfast/tree"
)

// Barrier blocks all callers of Wait until a caller lowers it. A barrier is raised while its entry exists, which
// belongs to no session. Safe for concurrent use.
//
//	          Raise
//	LOWERED ---------> RAISED: Wait waits
//	   ^                  |
//	   |      Lower       |
//	   +------------------+
//
// A raised barrier outlives the session that raised it.
type Barrier struct{ line line }

// NewBarrier returns the barrier at a path without contacting the cluster.
func NewBarrier(s *client.Session, path string, o ...Option) *Barrier {
	return &Barrier{newLine(s, path, o)}
}

// Raise raises the barrier; it may be raised already.
func (b *Barrier) Raise(ctx context.Context) error {
	err := check(b.line.path)
	if err == nil {
		_, err = b.line.in.Create(ctx, b.line.path, nil, client.CreateOptions{Parents: true, ACL: b.line.o.acl})
	}
	if errors.Is(err, &tree.RefusedError{Code: tree.NodeExists}) {
		err = nil
	}
	return failed("raise", b.line.path, err)
}

// Lower lets go all who wait; the barrier may be lowered already.
func (b *Barrier) Lower(ctx context.Context) error {
	err := check(b.line.path)
	if err == nil {
		err = b.line.in.Delete(ctx, b.line.path)
	}
	if errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) {
		err = nil
	}
	return failed("lower", b.line.path, err)
}

// Wait waits until the barrier is lowered; it returns at once if it is. Wait sees this client's earlier writes: a
// barrier that this client raised is raised. The contacted node may not have applied recent writes of other clients.
func (b *Barrier) Wait(ctx context.Context) error {
	try := b.line.begins("barrier")
	err := b.wait(ctx)
	try.ended(err)
	return failed("wait at", b.line.path, err)
}

func (b *Barrier) wait(ctx context.Context) error {
	if err := check(b.line.path); err != nil {
		return err
	}
	for {
		changed := client.NewOneShot()
		_, exists, err := b.line.in.Exists(ctx, b.line.path, client.WithWatch(changed))
		if err == nil && exists {
			_, err = changed.Wait(ctx)
		}
		changed.Stop()
		if err != nil || !exists {
			return err
		}
	}
}
