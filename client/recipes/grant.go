package recipes

import (
	"context"
	"sync"
	"time"

	"holdfast/tree"
)

// Grant is the common part of the grants of all recipes. The package's documentation describes its guarantees. Safe for
// concurrent use.
type Grant struct {
	try   attempt
	place *place
	since time.Time

	mu sync.Mutex
	// working ends with the promise that it was made under, and with the grant. guarded by mu
	working context.Context //nolint:containedctx // Grant.Context returns it
	// stop ends working. guarded by mu
	stop context.CancelCauseFunc
}

// newGrant returns the grant of a place that is first, once the session has a promise.
func newGrant(ctx context.Context, p *place, try attempt) (*Grant, error) {
	promised, err := p.session.AwaitPromise(ctx)
	if err != nil {
		return nil, err
	}
	g := &Grant{try: try, place: p, since: time.Now()}
	g.working, g.stop = context.WithCancelCause(promised)
	context.AfterFunc(p.alive, g.over)
	return g, nil
}

// over ends the work under a grant that is over.
func (g *Grant) over() {
	why := context.Cause(g.place.alive)
	g.mu.Lock()
	g.stop(why)
	g.mu.Unlock()
	g.try.held(g.since, why)
}

// Token returns the fencing token: the stamp of the creation of the grant's entry (H1 fencing tokens). It never
// changes.
func (g *Grant) Token() tree.Stamp { return g.place.token }

// Path returns the path of the grant's entry, for [client.Tree.CheckFence].
func (g *Grant) Path() string { return g.place.entry() }

// Context returns a context to work under. It ends with the promise of the session, and with the grant: before the
// cluster can grant the same to another caller. A context that has ended stays ended. If the promise comes back while
// the grant is not over, Context returns a new context from then on. It carries the values of the context that the
// session was opened with.
func (g *Grant) Context() context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.place.alive.Err() != nil {
		g.stop(context.Cause(g.place.alive)) // over may be late
	}
	if g.working.Err() == nil || g.place.alive.Err() != nil {
		return g.working
	}
	if promised := g.place.session.Context(); promised.Err() == nil {
		g.working, g.stop = context.WithCancelCause(promised)
		if g.place.alive.Err() != nil { // over came before the new context
			g.stop(context.Cause(g.place.alive))
		}
	}
	return g.working
}

// SafeUntil returns the moment until which no other caller can get the same grant, as [client.Session.SafeUntil] does;
// zero without a promise, and when the grant is over.
func (g *Grant) SafeUntil() time.Time {
	if g.place.alive.Err() != nil {
		return time.Time{}
	}
	return g.place.session.SafeUntil()
}

// Done returns a channel that is closed when the grant is over for good.
func (g *Grant) Done() <-chan struct{} { return g.place.alive.Done() }

// Err returns nil until the grant is over, then the reason: [ErrReleased], [ErrBroken], the error of
// [client.Session.Err], or the error that ended the watch of the grant's own entry, such as a [tree.RefusedError] with
// [tree.NoPermission] when the access list no longer lets the session read it. A grant without this watch could not
// notice a removal, so it is given up.
func (g *Grant) Err() error { return context.Cause(g.place.alive) }

// release ends the work under the grant, and then removes its entry. When ctx ends first, the removal continues. The
// error is why the grant was over before.
func (g *Grant) release(ctx context.Context) error {
	if err := g.Err(); err != nil {
		return err
	}
	g.stopWork()
	return g.place.left(ctx, ErrReleased)
}

// stopWork ends the work under a grant that is given up, before the removal of its entry is sent.
func (g *Grant) stopWork() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stop(ErrReleased)
}

// during runs work under the context of the grant, which also ends with ctx, and gives the grant up. The error is that
// of work, or why the grant did not last until the end of work. After the end of ctx it waits for the cluster's answer
// as long as the session has a promise: a healthy cluster has answered by then. If none comes, the error is the cause
// of ctx.
//
// When work panics or ends its goroutine, the grant is given up without waiting for the cluster, and the panic
// continues. Otherwise the grant would last as long as its session.
func (g *Grant) during(ctx context.Context, work func(context.Context, tree.Stamp) error) error {
	under, cancel := context.WithCancelCause(g.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	returned := false
	defer func() {
		if !returned {
			g.stopWork()
			g.place.leave(ErrReleased)
		}
	}()
	err := work(under, g.Token())
	returned = true
	waiting, stop := g.whilePromised(ctx)
	defer stop()
	if released := g.release(waiting); err == nil {
		err = released
	}
	return err
}

// whilePromised returns a context that ends with the cause of ctx, when ctx has ended and the session has no promise.
func (g *Grant) whilePromised(ctx context.Context) (context.Context, func()) {
	waiting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-g.place.session.Context().Done():
			cancel(context.Cause(ctx))
		case <-waiting.Done():
		}
	})
	return waiting, func() {
		stop()
		cancel(nil)
	}
}
