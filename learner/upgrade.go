package learner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast/session"
)

// maxFlights is how many upgrades are asked of the leader at once; further ones wait.
const maxFlights = 1024

// upgrades makes local sessions of this node global (L7, L8). Safe for concurrent use.
//
// An upgrade is one [flight] for all clients that ask for it. It begins with Local.lift and ends in one of three ways:
// the entry that makes the session global is applied (promote), the leader certainly refused (Local.refuse), or the log
// says that the session has ended (fell).
type upgrades struct {
	node session.Node
	// interval is Config.Interval, allowed Config.Upgrade.
	interval time.Duration
	allowed  bool
	view     View
	clock    *clock
	table    *TouchTable
	local    *Local
	registry *registry
	upstream *upstream
	// flights are to be asked of the leader. ended is closed when run takes no more of them.
	flights chan *flight
	ended   chan struct{}
}

// upgrade returns once the session of a local token is global, or is not here at all.
func (u *upgrades) upgrade(ctx context.Context, t session.Token) error {
	if !u.allowed && u.local.has(t.ID) {
		return &session.FieldError{
			Field: "token", Limit: "of a global session while the cluster's setting local_session_upgrade is off",
		}
	}
	f, begun, err := u.local.lift(t, u.clock.look(), u.view.AppliedIndex())
	if f == nil {
		return err
	}
	if begun {
		select {
		case u.flights <- f:
		case <-u.ended:
			u.local.refuse(f, session.ErrStopping, u.clock.look())
		case <-ctx.Done():
			u.local.refuse(f, session.ErrNoLeader, u.clock.look()) // nothing was asked
			return ctx.Err()
		}
	}
	return f.wait(ctx)
}

// run asks for upgrades until ctx ends.
func (u *upgrades) run(ctx context.Context) {
	defer close(u.ended)
	var wg sync.WaitGroup
	defer wg.Wait()
	places := make(chan struct{}, maxFlights)
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		select {
		case f := <-u.flights:
			wg.Go(func() {
				defer func() { <-places }()
				u.fly(ctx, f)
			})
		case <-ctx.Done():
			return
		}
	}
}

// fly asks the leader for an upgrade until the outcome is known. Once an outcome is unknown only the log decides: fly
// repeats the same command, which changes nothing if it had taken effect already (L7).
func (u *upgrades) fly(ctx context.Context, f *flight) {
	unknown := false
	for {
		request := f.request
		reply, err := u.upstream.ask(ctx, session.Request{Upgrade: &request})
		switch {
		case err == nil:
			err = u.view.WaitApplied(ctx, reply.Index) // then promote has handed the session over
			if err != nil {
				err = fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, err)
			}
			f.land(err)
			return
		case errors.Is(err, session.ErrExpired):
			f.land(u.fell(ctx, f, reply.Index))
			return
		case errors.Is(err, session.ErrOutcomeUnknown):
			unknown = true
		case unknown && errors.Is(err, session.ErrStopping):
			// The node asks for nothing any more, and clients that wait would keep it from stopping.
			f.land(fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, err))
			return
		case !unknown:
			u.local.refuse(f, err, u.clock.look())
			return
		}
		if !u.pause(ctx) {
			f.land(fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, ctx.Err()))
			return
		}
	}
}

// pause waits for half an interval; it returns false when ctx has ended.
func (u *upgrades) pause(ctx context.Context) bool {
	timer := time.NewTimer(u.interval / 2)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// fell ends a session of which the log says that it became global and has ended, or may have. The error is
// session.ErrOutcomeUnknown when this node has not applied the entry at index; the session then stays as it is.
func (u *upgrades) fell(ctx context.Context, f *flight, index uint64) error {
	if err := u.view.WaitApplied(ctx, index); err != nil {
		return fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, err)
	}
	id := f.request.ID
	certificate, ok := u.registry.certificate(id)
	if !ok {
		certificate = session.Certificate{ID: id, Owner: u.node}
	}
	ended := make(endings)
	u.local.leave(ended, id, u.registry.gone(id), func(e session.Events) { e.Gone(certificate) })
	ended.forget()
	return nil
}

// promote serves a session as the global one that an entry made of it, through the connection that served it as a local
// one (L8). It runs on the goroutine that applies entries, before anything shows that the entry was applied. So no
// touch falls between the two, and no move or end of the session can be applied first.
func (u *upgrades) promote(granted session.Session) {
	for {
		c := u.local.connOf(granted.ID)
		if c == nil || u.handOver(c, granted) {
			return
		}
	}
}

// handOver is promote for one connection. It returns false when another connection serves the session by now.
func (u *upgrades) handOver(c *connection, granted session.Session) bool {
	tag := u.table.nextTag()
	u.clock.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	var a *attached
	done := u.local.handOver(granted.ID, c, session.ErrMoved, func(one *local) {
		u.local.upgraded++
		confirmed := mark{}
		if one.flight != nil && !u.clock.stalls.suspendedSince(one.flight.begun) {
			confirmed = mark{tag: tag, at: one.flight.begun} // S2: the commit confirms the request
		}
		a = u.table.promote(granted, one, confirmed)
	})
	if done && !c.unary && !c.over.Load() {
		delete(c.locals, granted.ID)
		c.sessions.put(a)
	}
	return done
}

// restored looks for the sessions whose upgrade is under way in the state that a snapshot brought (M4).
func (u *upgrades) restored(ended endings) {
	for _, id := range u.local.lifted() {
		now, global := u.view.Session(id)
		certificate, over := u.view.Certificate(id)
		switch {
		case global && now.Owner == u.node:
			// Only clients of this node could have moved the session back here, and they wait for the flight.
			u.promote(now)
		case global:
			u.local.leave(ended, id, session.MovedTo(now), func(e session.Events) {
				e.Moved(id, now.Attachment, now.Instance)
			})
		case over:
			u.local.leave(ended, id, expired(&certificate), func(e session.Events) { e.Gone(certificate) })
		}
	}
}
