// Package building has the Go code of docs/building.md, and runs it against whole nodes.
package building

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/fence"
	"holdfast/session"
	"holdfast/tree"
)

// docs/building.md shows this code; a test of test/planted keeps both the same.

// change changes a device under a lock, whoever else wants to.
func change(ctx context.Context, s *client.Session, d *device, value string) error {
	const lock = "/locks/device"
	return recipes.NewLock(s, lock).Do(ctx, func(ctx context.Context, token tree.Stamp) error {
		return d.set(ctx, lock, fence.Token(token), value)
	})
}

// lead campaigns, and works once it leads. Others find the leader by its address.
func lead(ctx context.Context, s *client.Session, address string,
	work func(ctx context.Context, t fence.Token) error,
) error {
	led, err := recipes.NewElection(s, "/elections/jobs").Campaign(ctx, []byte(address))
	if err != nil {
		return err
	}
	err = whileSafe(ctx, s, led.Grant, func(ctx context.Context) error { return work(ctx, fence.Token(led.Token())) })
	if led.Err() != nil {
		return err // it leads no more
	}
	return errors.Join(err, led.Resign(ctx))
}

// held is a session, or a grant of a recipe.
type held interface {
	Context() context.Context
	Err() error
}

// whileSafe runs work while h is safe, and runs it again when the promise of its session has come back. It ends when
// work returns by itself, when h is over, and with ctx.
func whileSafe(ctx context.Context, s *client.Session, h held, work func(context.Context) error) error {
	for h.Err() == nil {
		safe := h.Context()
		if safe.Err() == nil {
			if err := work(safe); err == nil || safe.Err() == nil {
				return err
			}
		}
		if _, err := s.AwaitPromise(ctx); err != nil {
			return err
		}
	}
	return h.Err()
}

// register keeps an instance of a service registered until ctx ends, with one session after the other if it must.
func register(ctx context.Context, c *client.Client, address string) error {
	instance := recipes.Member{ID: address, Address: address, Labels: map[string]string{"zone": "a"}}
	r, err := client.NewRegistrar(c, client.RegistrarOptions{
		Session: client.SessionOptions{Timeout: 10 * time.Second},
		Register: func(ctx context.Context, e client.Establishment) error {
			_, err := recipes.NewGroup(e.Session.Tree(), "/services/web").Join(ctx, e.Session, instance)
			return err
		},
	})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// instances calls use with the addresses of the instances, at first and after each change, until ctx ends.
func instances(ctx context.Context, c *client.Client, use func(addresses []string)) error {
	view, err := recipes.NewGroup(c.Tree(), "/services/web").View(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	for {
		changed := view.Changes()
		var addresses []string
		for _, m := range view.Members(map[string]string{"zone": "a"}) {
			addresses = append(addresses, m.Address)
		}
		use(addresses)
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if view.Err() != nil {
			return view.Err()
		}
	}
}

// ends reports the ends of sessions until ctx ends.
func ends(ctx context.Context, c *client.Client, report func(session.Certificate)) error {
	for e, err := range c.WatchSessions(ctx) {
		switch {
		case err != nil:
			return err
		case e.Ended != nil:
			report(*e.Ended)
		case e.Lost:
			return fmt.Errorf("ends up to %v may be missing: list the sessions, and watch again", e.Stamp)
		}
	}
	return nil
}

// lock takes a lock: an entry that ends with the session. Its token is the stamp that made the entry.
func lock(ctx context.Context, s *client.Session, path string) (fence.Token, error) {
	made, err := s.Tree().Create(ctx, path, nil, client.CreateOptions{Kind: tree.Ephemeral, Parents: true})
	if errors.Is(err, &tree.RefusedError{Code: tree.NodeExists}) {
		return 0, fmt.Errorf("lock %s: somebody else holds it: %w", path, err)
	}
	return fence.Token(made.Stat.Created), err
}

// device is changed by holders of a lock.
type device struct {
	guard *fence.Guard // fence.NewGuard(1)
	value string
}

func (d *device) set(ctx context.Context, lock string, t fence.Token, value string) error {
	return d.guard.Do(ctx, lock, t, func(context.Context) error {
		d.value = value
		return nil
	})
}

// setAsked is set for a device whose guard may have forgotten a newer token. It asks the cluster who holds the lock.
func (d *device) setAsked(ctx context.Context, in *client.Tree, lock string, t fence.Token, value string) error {
	return d.guard.Do(ctx, lock, t, func(ctx context.Context) error {
		holds, err := in.CheckFence(ctx, lock, tree.Stamp(t))
		if err == nil && !holds {
			err = fmt.Errorf("set %q: fence %v is not that of the present holder of %s", value, t, lock)
		}
		if err == nil {
			d.value = value
		}
		return err
	})
}
