// Package building has the Go code of docs/building.md, and runs it against whole nodes.
package building

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast/client"
	"holdfast/fence"
	"holdfast/session"
	"holdfast/tree"
)

// docs/building.md shows this code; a test of test/planted keeps both the same.

// whileSafe runs work while the session has a promise, and runs it again when a promise returns. It ends when work
// returns by itself or when the session has ended.
func whileSafe(s *client.Session, work func(context.Context) error) error {
	for {
		ctx := s.Context()
		if ctx.Err() == nil {
			if err := work(ctx); err == nil || ctx.Err() == nil {
				return err
			}
		}
		// The promise has run out, but the session may live: wait for another promise or for the session's end.
		for s.Context().Err() != nil {
			if _, more := <-s.Events(); !more {
				return s.Err()
			}
		}
	}
}

// enter opens the session of a candidate in an election.
func enter(ctx context.Context, c *client.Client, election string) (*client.Session, error) {
	return c.Open(ctx, client.SessionOptions{
		Timeout: 10 * time.Second, Labels: map[string]string{"election": election},
	})
}

// candidates returns the living candidates in the order in which the log opened their sessions.
func candidates(ctx context.Context, c *client.Client, election string) ([]session.Session, error) {
	o := client.ListOptions{Labels: map[string]string{"election": election}, Scope: session.ScopeGlobal}
	var all []session.Session
	for {
		page, err := c.List(ctx, o)
		if err != nil {
			return nil, err
		}
		for _, listed := range page.Sessions {
			all = append(all, listed.Session)
		}
		if page.Next == "" {
			break
		}
		o.PageToken = page.Next
	}
	slices.SortFunc(all, func(a, b session.Session) int {
		return cmp.Or(cmp.Compare(a.OpenedIndex, b.OpenedIndex), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// elected waits until no candidate older than own is left. It returns own as the cluster shows it.
func elected(ctx context.Context, c *client.Client, election string, own *client.Session) (session.Session, error) {
	for {
		all, err := candidates(ctx, c, election)
		if err != nil {
			return session.Session{}, err
		}
		place := slices.IndexFunc(all, func(s session.Session) bool { return s.ID == own.ID() })
		switch place {
		case -1:
			return session.Session{}, &session.ExpiredError{ID: own.ID()}
		case 0:
			return all[0], nil
		}
		// Each candidate watches the candidate just before it, so an end wakes one candidate.
		if err := gone(ctx, c, all[place-1].ID, own.Done()); err != nil {
			return session.Session{}, err
		}
	}
}

// gone waits until a session has ended, or until enough is closed. It asks once a second.
func gone(ctx context.Context, c *client.Client, id session.ID, enough <-chan struct{}) error {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		found, err := c.Get(ctx, id)
		switch {
		case errors.Is(err, session.ErrExpired): // it ended long ago: the cluster has dropped its certificate
			return nil
		case err != nil:
			return err
		case found.Certificate != nil:
			return nil
		}
		select {
		case <-every.C:
		case <-enough:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lead waits until s is elected, and runs work while s has a promise.
func lead(ctx context.Context, c *client.Client, s *client.Session, election string,
	work func(context.Context, electionFence) error,
) error {
	own, err := elected(ctx, c, election, s)
	if err != nil {
		return err
	}
	return whileSafe(s, func(ctx context.Context) error {
		return work(ctx, electionFence{opened: own.OpenedIndex, id: own.ID, attachment: s.Token().Attachment})
	})
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

// electionFence orders the writes of an election's leaders: by the leader's session, then by its attachment.
type electionFence struct {
	opened     uint64
	id         session.ID
	attachment uint64
}

func (f electionFence) compare(g electionFence) int {
	return cmp.Or(cmp.Compare(f.opened, g.opened), cmp.Compare(f.id, g.id), cmp.Compare(f.attachment, g.attachment))
}

// resource is changed by leaders. It keeps the highest fence that it has seen beside its value. A database writes both
// in one transaction.
type resource struct {
	highest electionFence
	value   string
}

func (r *resource) set(f electionFence, value string) error {
	if f.compare(r.highest) < 0 {
		return fmt.Errorf("set %q: fence %v is below %v: another candidate leads now", value, f, r.highest)
	}
	r.highest, r.value = f, value
	return nil
}
