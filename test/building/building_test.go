// Package building holds the Go of docs/building.md, and runs it against whole nodes.
package building

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast/client"
	"holdfast/session"
)

// What docs/building.md shows; test/planted holds the page to it.

// whileSafe runs work under the session's promise, again after each time without one, until work has come to its own
// end or the session to its.
func whileSafe(s *client.Session, work func(context.Context) error) error {
	for {
		ctx := s.Context()
		if ctx.Err() == nil {
			if err := work(ctx); err == nil || ctx.Err() == nil {
				return err
			}
		}
		// The promise has run out. The session may live on: another promise comes, or the end.
		for s.Context().Err() != nil {
			if _, more := <-s.Events(); !more {
				return s.Err()
			}
		}
	}
}

// enter opens a session that is a candidate in an election.
func enter(ctx context.Context, c *client.Client, election string) (*client.Session, error) {
	return c.Open(
		ctx, client.SessionOptions{Timeout: 10 * time.Second, Labels: map[string]string{"election": election}},
	)
}

// candidates returns the living candidates in the order in which their sessions were opened: that of the log.
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

// elected returns once no candidate is left that was opened before own, with own as the cluster shows it.
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
		// Only the one just before: its end concerns nobody else, and nobody else's end this one.
		if err := gone(ctx, c, all[place-1].ID, own.Done()); err != nil {
			return session.Session{}, err
		}
	}
}

// gone returns once a session has ended, or nobody needs to know any more. It asks once a second.
func gone(ctx context.Context, c *client.Client, id session.ID, enough <-chan struct{}) error {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		found, err := c.Get(ctx, id)
		switch {
		case errors.Is(err, session.ErrExpired): // long ago: its certificate has been dropped
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

// lead waits to be elected, and leads for as long as that is sure.
func lead(ctx context.Context, c *client.Client, s *client.Session, election string,
	work func(context.Context, fence) error,
) error {
	own, err := elected(ctx, c, election, s)
	if err != nil {
		return err
	}
	return whileSafe(s, func(ctx context.Context) error {
		return work(ctx, fence{opened: own.OpenedIndex, id: own.ID, attachment: s.Token().Attachment})
	})
}

// fence orders what is done in the name of an election: by the leader's session, then by its connection.
type fence struct {
	opened     uint64
	id         session.ID
	attachment uint64
}

func (f fence) compare(g fence) int {
	return cmp.Or(cmp.Compare(f.opened, g.opened), cmp.Compare(f.id, g.id), cmp.Compare(f.attachment, g.attachment))
}

// resource is what leaders change. It keeps the highest fence that it has seen beside its value: in a database, in the
// same transaction.
type resource struct {
	highest fence
	value   string
}

func (r *resource) set(f fence, value string) error {
	if f.compare(r.highest) < 0 {
		return fmt.Errorf("fence %v is below %v: another leads", f, r.highest)
	}
	r.highest, r.value = f, value
	return nil
}
