package recipes

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/tree"
)

// Election elects one leader among the candidates, in the order of their arrival. Each candidate has a value, such as
// its address, that others can read while it leads. Safe for concurrent use.
//
//	          Campaign           first in queue, and promised
//	away  ---------------> CANDIDATE ------------------------> LEADER
//	  ^                        |                                 |
//	  |  ctx ends, broken,     |   Resign, broken, session ends  |
//	  +------------------------+---------------------------------+
//
// After the death of a leader the next candidate leads when the leader's session has expired, and its lock-delay is
// over.
type Election struct{ line line }

const candidate = "candidate-"

// NewElection returns the election at a path without contacting the cluster. [WithHolder] has no effect: the value of a
// candidate describes the candidate.
func NewElection(s *client.Session, path string, o ...Option) *Election {
	return &Election{newLine(s, path, o)}
}

// Leadership is the grant of a leader.
type Leadership struct{ *Grant }

// Campaign waits until the caller leads. Others read value while the caller leads. When ctx ends first, the error wraps
// its cause, and the candidacy is given up.
func (e *Election) Campaign(ctx context.Context, value []byte) (*Leadership, error) {
	g, err := e.line.grant(ctx, running(), value)
	if err != nil {
		return nil, failed("campaign", e.line.path, err)
	}
	return &Leadership{g}, nil
}

// TryCampaign leads if there is neither a leader nor a waiting candidate. Otherwise the error wraps [ErrBusy].
func (e *Election) TryCampaign(ctx context.Context, value []byte) (*Leadership, error) {
	g, err := e.line.try(ctx, running(), value)
	if err != nil {
		return nil, failed("try to lead", e.line.path, err)
	}
	return &Leadership{g}, nil
}

// running is the want of candidates: to be first.
func running() want {
	return want{
		recipe: "election", prefix: candidate,
		ahead:  func(ctx context.Context, p *place) (string, error) { return p.before(ctx, candidate) },
		holder: func(ctx context.Context, l line) (string, error) { return l.first(ctx, candidate) },
	}
}

// Proclaim replaces the leader's value. The error is [Grant.Err] if the leadership is over.
func (l *Leadership) Proclaim(ctx context.Context, value []byte) error {
	return failed("proclaim", l.place.path, l.place.set(ctx, value))
}

// Resign gives the leadership up, as [Hold.Unlock] does a lock.
func (l *Leadership) Resign(ctx context.Context) error {
	return failed("resign", l.place.path, l.release(ctx))
}

// Leader is the leader, as others see it.
type Leader struct {
	// Value is the leader's value of Campaign.
	Value []byte
	// Session is the leader's; 0 during a lock-delay after its end.
	Session session.ID
	// Token is the fencing token of the leadership, Path its entry: see [client.Tree.CheckFence].
	Token tree.Stamp
	Path  string
	// Since is when the leader began to campaign, by the clock of the cluster's leader of that time.
	Since time.Time
}

// same reports whether l and o are equal. The token identifies the entry.
func (l *Leader) same(o *Leader) bool {
	return l.Token == o.Token && l.Session == o.Session && bytes.Equal(l.Value, o.Value)
}

// Leader returns the leader that the contacted node knows. The error wraps [ErrNoLeader] if there is none.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	if err := check(e.line.path); err != nil {
		return Leader{}, failed("find the leader of", e.line.path, err)
	}
	leader, watch, err := e.read(ctx)
	watch.Stop()
	return leader, failed("find the leader of", e.line.path, err)
}

// read returns the leader, and a watch of its entry.
func (e *Election) read(ctx context.Context) (Leader, *client.OneShot, error) {
	for {
		watch := client.NewOneShot()
		name, err := e.line.first(ctx, candidate)
		switch {
		case err != nil:
			return Leader{}, watch, err
		case name == "":
			return Leader{}, watch, ErrNoLeader
		}
		path := tree.Join(e.line.path, name)
		found, err := e.line.in.Get(ctx, path, client.WithWatch(watch))
		if errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) {
			continue // the leader's entry was removed in between
		}
		return Leader{
			Value: found.Data, Session: session.ID(found.Stat.Owner), Token: found.Stat.Created, Path: path,
			Since: found.Stat.CreatedAt,
		}, watch, err
	}
}

// Observe yields the leader: first the present leader, if any, and then each new leader or new value. It never yields
// the same leader with the same value twice in a row. A short leadership may be left out. It ends when ctx ends, or the
// loop that ranges over it does; an error is yielded last. Candidates behind the leader wake no observer.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		err := check(e.line.path)
		var last Leader
		for more := true; more && err == nil; {
			more, err = e.observed(ctx, &last, yield)
		}
		if err != nil {
			yield(Leader{}, failed("observe", e.line.path, err))
		}
	}
}

// observed yields the present leader unless it equals last, and waits for a possible change. It returns false when
// yield has.
func (e *Election) observed(ctx context.Context, last *Leader, yield func(Leader, error) bool) (more bool, err error) {
	leader, changed, err := e.read(ctx)
	defer changed.Stop()
	switch {
	case errors.Is(err, ErrNoLeader):
		return true, e.anybody(ctx)
	case err != nil:
		return false, err
	case leader.same(last): // its entry was written with an equal value, or the client has moved
	case !yield(leader, nil):
		return false, nil
	}
	*last = leader
	_, err = changed.Wait(ctx)
	return true, err
}

// anybody waits until there may be a candidate.
func (e *Election) anybody(ctx context.Context) error {
	changed := client.NewOneShot()
	_, err := e.line.in.ListPage(ctx, e.line.path, client.Listing{PageSize: 1}, client.WithWatch(changed))
	come := false
	if err == nil {
		var name string
		name, err = e.line.first(ctx, candidate)
		come = name != ""
	}
	if errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) {
		changed = client.NewOneShot()
		_, come, err = e.line.in.Exists(ctx, e.line.path, client.WithWatch(changed)) // created in between: read again
	}
	defer changed.Stop()
	if err != nil || come {
		return err
	}
	_, err = changed.Wait(ctx)
	return err
}
