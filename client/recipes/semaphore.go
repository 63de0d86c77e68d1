package recipes

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"holdfast/client"
	"holdfast/session"
	"holdfast/tree"
)

// Semaphore lets a number of callers hold a permit at a time, in the order in which they came. Safe for concurrent use.
//
//	          Acquire            first in queue         fewer permits are out than there are
//	away  ---------------> WAITING ------------> FIRST ------------------------------------> HOLDING
//	  ^                      |                     |                                           |
//	  |  ctx ends, broken,   |                     |      Release, broken, session ends        |
//	  +----------------------+---------------------+-------------------------------------------+
//
// Only the first contender reads the held permits. It acquires a permit and leaves the line in one transaction. So a
// returned permit wakes one caller, and the number of permits is never exceeded: the next contender sees the permit of
// the contender before.
//
// The permit of a dead holder is free when its session has expired, and its lock-delay is over.
//
// A permit's token is higher than those of all permits that were acquired before. Another holder's token at the same
// time may be lower or higher: fencing tokens cannot protect a resource that several holders write to.
type Semaphore struct {
	line   line
	number int
}

const (
	queueName   = "queue"
	permitsName = "permits"
	permit      = "permit-"
	// MaxPermits is the number of permits of a [Semaphore], at most.
	MaxPermits = 10_000
)

// SizeError reports that a semaphore or a barrier at a path is used with another number elsewhere.
type SizeError struct {
	Path string
	// Requested is the caller's number, Is the number in the entry at the path.
	Requested, Is string
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%s is for %s, not for %s", e.Path, e.Is, e.Requested)
}

// NewSemaphore returns the semaphore at a path with a number of permits, 1 to [MaxPermits], without contacting the
// cluster. All callers must use the same number; the first caller sets it.
func NewSemaphore(s *client.Session, path string, permits int, o ...Option) *Semaphore {
	return &Semaphore{newLine(s, path, o), permits}
}

// Permit is a permit that is held.
type Permit struct{ *Grant }

// Release gives the permit back, as [Hold.Unlock] does a lock.
func (p *Permit) Release(ctx context.Context) error {
	return failed("release", p.place.path, p.release(ctx))
}

// Acquire waits for a permit. When ctx ends first, the error wraps its cause, and no entry is left behind. The error is
// a [SizeError] if the semaphore has another number of permits.
func (s *Semaphore) Acquire(ctx context.Context) (*Permit, error) {
	try := s.line.begins("semaphore")
	g, err := s.acquire(ctx, try, waiting())
	return s.answer("acquire", try, g, err)
}

// TryAcquire acquires a permit if one is free and no caller waits. Otherwise the error wraps [ErrBusy].
func (s *Semaphore) TryAcquire(ctx context.Context) (*Permit, error) {
	try := s.line.begins("semaphore")
	g, err := s.acquire(ctx, try, hasty())
	return s.answer("try to acquire", try, g, err)
}

// Do runs work while it holds a permit, see [Lock.Do].
func (s *Semaphore) Do(ctx context.Context, work func(ctx context.Context, token tree.Stamp) error) error {
	p, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	return failed("hold", s.line.path, p.during(ctx, work))
}

func (s *Semaphore) answer(verb string, try attempt, g *Grant, err error) (*Permit, error) {
	try.ended(err)
	if err != nil {
		return nil, failed(verb, s.line.path, err)
	}
	return &Permit{g}, nil
}

// manner is how a caller waits: in the queue, and at its head for a released permit.
type manner struct {
	ahead rule
	full  func(ctx context.Context, changed *client.OneShot) error
}

func waiting() manner {
	return manner{writing().ahead, func(ctx context.Context, changed *client.OneShot) error {
		_, err := changed.Wait(ctx)
		return err
	}}
}

// hasty is the manner of a caller that does not wait.
func hasty() manner {
	return manner{busy(writing().ahead), func(context.Context, *client.OneShot) error { return ErrBusy }}
}

// acquire waits in the queue, and acquires a permit once it is first.
func (s *Semaphore) acquire(ctx context.Context, try attempt, how manner) (*Grant, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	p, err := s.below(queueName).enter(ctx, contender, []byte(s.line.o.holder))
	if err != nil {
		return nil, err
	}
	g, err := s.first(ctx, p, try, how)
	if err != nil {
		p.leave(err)
	}
	return g, err
}

// first waits until p is first in the queue, and acquires a permit for it.
func (s *Semaphore) first(ctx context.Context, p *place, try attempt, how manner) (*Grant, error) {
	if err := p.turn(ctx, how.ahead); err != nil {
		return nil, err
	}
	holder, err := s.acquirePermit(ctx, p, how)
	if err != nil {
		return nil, err
	}
	g, err := newGrant(ctx, holder, try)
	if err != nil {
		holder.leave(err)
	}
	return g, err
}

// acquirePermit waits until a permit is free, and exchanges the place p for it.
func (s *Semaphore) acquirePermit(ctx context.Context, p *place, how manner) (*place, error) {
	waiting, stop := p.while(ctx)
	defer stop()
	permits := s.below(permitsName)
	for {
		changed := client.NewOneShot()
		page, err := s.line.in.ListPage(waiting, permits.path, client.Listing{PageSize: 1}, client.WithWatch(changed))
		switch {
		case errors.Is(err, &tree.RefusedError{Code: tree.NoNode}):
			err = permits.ensure(waiting)
		case err == nil && page.Stat.Children < s.number:
			changed.Stop()
			out, failed := s.exchange(ctx, p)
			if errors.Is(failed, &tree.RefusedError{Code: tree.NoParent}) {
				continue // the entry above the permits was reaped in between
			}
			return out, failed
		case err == nil:
			err = how.full(waiting, changed)
		}
		changed.Stop()
		if err != nil {
			return nil, p.reason(waiting, err)
		}
	}
}

// exchange exchanges the place in the line for a permit, in one transaction. If ctx ends first, see [handed].
func (s *Semaphore) exchange(ctx context.Context, p *place) (*place, error) {
	permits := s.below(permitsName)
	return handed(ctx, func(ctx context.Context) (*place, error) {
		done, err := s.line.in.Transact(ctx, tree.Transaction{
			If: []tree.Condition{p.stillExists()},
			Then: []tree.Op{
				tree.Delete{Path: p.entry(), Version: tree.Any},
				tree.Create{
					Path: tree.Join(permits.path, permit), Sequential: true, Kind: tree.Ephemeral, LockDelay: s.line.o.lockDelay,
					Data: []byte(s.line.o.holder), ACL: s.line.o.acl,
				},
			},
		})
		switch {
		case err != nil:
			return nil, err
		case done.Outcome.Else:
			return nil, ErrBroken
		}
		p.end(ErrReleased)
		made := done.Outcome.Ops[1]
		return permits.placed(ctx, made.Path, made.Stat.Created).monitored(), nil
	})
}

// below returns the line at one of the semaphore's entries.
func (s *Semaphore) below(name string) line {
	l := s.line
	l.base, l.path = l.path, tree.Join(l.path, name)
	return l
}

// check makes the entry of the semaphore unless it is there, and compares the number of permits.
func (s *Semaphore) check(ctx context.Context) error {
	if err := check(s.line.path); err != nil {
		return err
	}
	if s.number < 1 || s.number > MaxPermits {
		return &session.FieldError{Field: "permits", Limit: fmt.Sprintf("1 to %d", MaxPermits)}
	}
	return sized(ctx, s.line.in, s.line.path, strconv.Itoa(s.number)+" permits")
}

// sized creates the entry at path for a number, unless it exists. The error is a [SizeError] if it has another number.
func sized(ctx context.Context, in entries, path, number string) error {
	for {
		e, err := in.Get(ctx, path, client.Linearizable())
		switch {
		case errors.Is(err, &tree.RefusedError{Code: tree.NoNode}):
			o := client.CreateOptions{Kind: tree.Container, Parents: true}
			_, err = in.Create(ctx, path, []byte(number), o)
		case err == nil && e.Data == nil: // created by another caller's line, after the cluster had removed it
			err = in.Set(ctx, path, []byte(number), e.Stat.Version)
		case err == nil && string(e.Data) != number:
			return &SizeError{Path: path, Requested: number, Is: string(e.Data)}
		}
		if !overtaken(err) {
			return err
		}
	}
}
