package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/session"
	"holdfast/test/sim/check"
	"holdfast/test/sim/history"
)

// count adds to the counter, now and then several times at once, and reads it.
//
//nolint:revive // flag-parameter: see rest
func (x *worker) count(ctx context.Context, s *client.Session, last bool) bool {
	c := recipes.NewCounter(s, countPath)
	if !last && x.draw(3) == 0 {
		x.read(ctx, s, c)
	}
	n := 1
	if x.draw(3) == 0 {
		n = 4
	}
	var all sync.WaitGroup
	added := make([]bool, n)
	for i := range n {
		all.Go(func() { added[i] = x.add(ctx, s, c, last) })
	}
	all.Wait()
	return !slices.Contains(added, false)
}

// add adds a number that no other call adds.
func (x *worker) add(ctx context.Context, s *client.Session, c *recipes.Counter, last bool) bool {
	asking, cancel := x.withTimeout(ctx, last)
	defer cancel()
	number, sent := x.contest.calls.Add(1), x.w.record.Now()
	sum, err := c.Add(asking, number)
	u := history.Use{Path: countPath, Verb: check.Add, Number: number, Sum: sum}
	return x.used(s, sent, u, err)
}

func (x *worker) read(ctx context.Context, s *client.Session, c *recipes.Counter) {
	asking, cancel := x.withTimeout(ctx, false)
	defer cancel()
	sent := x.w.record.Now()
	sum, err := c.Get(asking, client.Linearizable())
	if err == nil {
		x.used(s, sent, history.Use{Path: countPath, Verb: check.Read, Sum: sum}, nil)
	}
}

// attendance is a worker's view of the group with one session.
type attendance struct {
	s      *client.Session
	name   string
	view   *recipes.View
	member *recipes.Membership
}

// attend is sometimes a member of the group, and reads who else is.
func (x *worker) attend(ctx context.Context, s *client.Session) bool {
	a := &attendance{s: s, name: fmt.Sprintf("view %d", x.contest.calls.Add(1))}
	if before := x.present.Swap(a); before != nil && before.view != nil {
		before.view.Close()
	}
	return x.repeat(groupPath, func(ctx context.Context, _ *client.Session, last bool) bool {
		asking, cancel := x.withTimeout(ctx, last)
		defer cancel()
		var err error
		if a.view == nil {
			if a.view, err = recipes.NewGroup(s.Tree(), groupPath).View(asking); err != nil {
				a.view = nil
				return false
			}
		}
		x.mind(asking, a, last)
		if last { // a view shows its own session's writes a little later
			sleep(ctx, 100*time.Millisecond)
		}
		x.observe(a, check.View)
		return a.member != nil && a.member.Err() == nil
	})(ctx, s)
}

// mind joins the group, says something else of itself, or leaves.
func (x *worker) mind(ctx context.Context, a *attendance, last bool) {
	sent := x.w.record.Now()
	u := history.Use{Path: groupPath, Verb: check.Join, Data: fmt.Sprintf("%s says %d", x.name, x.contest.calls.Add(1))}
	is := recipes.Member{ID: x.name, Address: u.Data}
	var err error
	switch {
	case a.member == nil || a.member.Err() != nil:
		a.member, err = recipes.NewGroup(a.s.Tree(), groupPath).Join(ctx, a.s, is)
		if err != nil {
			a.member = nil
		}
	case last || x.draw(3) > 0:
		u.Verb = check.Set
		err = a.member.Set(ctx, is)
	default:
		u.Verb = "leave"
		err = a.member.Leave(ctx)
	}
	x.used(a.s, sent, u, err)
}

// observe records the contents of a view.
func (x *worker) observe(a *attendance, verb string) {
	if a.view.Err() != nil {
		if x.isLast() && a.s.Err() == nil && !errors.Is(a.view.Err(), session.ErrClosed) {
			x.w.failAbout(a.s.ID(), "%s: %s has ended: %v", x.name, a.name, a.view.Err())
		}
		return
	}
	u := history.Use{Path: groupPath, Verb: verb, View: a.name}
	for _, m := range a.view.Members(nil) {
		u.Members = append(u.Members, history.Member{ID: m.ID, Address: m.Address, Session: m.Session, Token: m.Token})
	}
	x.used(a.s, x.w.record.Now(), u, nil)
}

// takeRoll waits until all views agree, and records what they show.
func (y *yard) takeRoll(ctx context.Context, all []*worker) {
	sleep(ctx, time.Second)
	for range 10 {
		var first []recipes.Member
		agree := true
		for i, x := range all {
			members := x.present.Load().view.Members(nil)
			if i == 0 {
				first = members
			}
			agree = agree && slices.EqualFunc(first, members, func(a, b recipes.Member) bool {
				return cmp.Compare(a.Token, b.Token) == 0
			})
		}
		if agree {
			break
		}
		sleep(ctx, 500*time.Millisecond)
	}
	for _, x := range all {
		x.observe(x.present.Load(), check.LastView)
	}
}
