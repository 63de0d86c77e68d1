package fence

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

// MaxName is the largest number of bytes in the name of a resource: that of the longest path in the tree.
const MaxName = 4096

// StaleError refuses a token: a newer one has been seen, so the lock is another holder's.
type StaleError struct {
	// Resource names what was to be written: the name given to a [Guard], the path of a [File], or a URL.
	Resource string
	// Token is the token that was refused, Newest the newest token that the resource has seen.
	Token, Newest Token
}

// Error names the resource and both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("write %q: fence %v is older than %v: the lock has another holder now", e.Resource, e.Token,
		e.Newest)
}

// FullError refuses a resource that a [Guard] has no room for.
type FullError struct {
	Resource string
	// Max is the number of resources that the guard keeps tokens of.
	Max int
}

// Error names the resource and the bound.
func (e *FullError) Error() string {
	return fmt.Sprintf("write %q: the guard keeps the tokens of %d resources already: forget some, or make it larger",
		e.Resource, e.Max)
}

// NameError refuses a name that is longer than [MaxName].
type NameError struct {
	// Bytes is the length of the name.
	Bytes int
}

// Error names the length and its bound.
func (e *NameError) Error() string {
	return fmt.Sprintf("name of a resource has %d bytes: must have at most %d", e.Bytes, MaxName)
}

// Guard keeps the newest token of each resource, and refuses older ones. Safe for concurrent use.
//
// A guard remembers tokens for as long as its process runs. So it protects what ends with the process: memory, devices
// that the process has opened, connections. State that outlives the process needs its token beside it, as [File] and
// the examples for PostgreSQL keep it; or the program admits the stored tokens before it serves anybody.
//
// A guard keeps at most as many resources as [NewGuard] was told, with names of at most [MaxName] bytes. It never
// forgets a token by itself, because it would then admit an older one: a further resource is refused with a
// [*FullError].
type Guard struct {
	// limit is the largest number of resources.
	limit int

	mu        sync.Mutex
	resources map[string]*guarded // guarded by mu
}

// guarded is what a guard knows of one resource.
type guarded struct {
	newest Token // guarded by Guard.mu
	// forgotten is set once the guard no longer has the resource: waiters begin again. guarded by Guard.mu
	forgotten bool
	// turn holds a value while a callback runs.
	turn chan struct{}
}

// NewGuard returns a guard of at most limit resources, at least one. A resource costs about 200 bytes and its name.
func NewGuard(limit int) *Guard {
	return &Guard{limit: max(limit, 1), resources: make(map[string]*guarded)}
}

// Admit returns nil if t is the newest token of resource so far: larger than all others, or equal to the largest. From
// then on older tokens are refused. Admit waits for a callback of [Guard.Do] that runs: once it has returned nil, no
// callback of an older token runs, and none will.
//
// Errors: [*StaleError], [*TokenError] for a token that no lock has, [*NameError], [*FullError].
func (g *Guard) Admit(resource string, t Token) error {
	for {
		r, err := g.enter(resource, t)
		if err != nil {
			return err
		}
		r.turn <- struct{}{}
		again, err := g.stands(r, resource, t)
		<-r.turn
		if !again {
			return err
		}
	}
}

// Do admits t as [Guard.Admit] does, and calls write before any other callback or admission of the resource goes on. So
// the check and the write are one step: the callbacks of a resource run one at a time, in the order of their tokens.
//
// The token counts from the moment of the call, also while Do waits: older tokens are refused from then on. When ctx
// ends before it is the callback's turn, Do returns its cause, and write is not called. A callback that never returns
// blocks its resource, since nobody may write beside it: let it heed ctx. It must not call the guard for the same
// resource.
//
// Do returns the error of write, or one of its own: then write was not called. Its own errors are those of
// [Guard.Admit].
func (g *Guard) Do(ctx context.Context, resource string, t Token, write func(context.Context) error) error {
	for {
		r, err := g.enter(resource, t)
		if err != nil {
			return err
		}
		again, err := g.turn(ctx, r, resource, t, write)
		if !again {
			return err
		}
	}
}

// Forget drops the token of a resource that nobody will write again, and makes room for another. It waits for a
// callback that runs. A write that is late all the same is then admitted.
func (g *Guard) Forget(resource string) {
	for {
		g.mu.Lock()
		r := g.resources[resource]
		g.mu.Unlock()
		if r == nil {
			return
		}
		r.turn <- struct{}{}
		g.mu.Lock()
		already := r.forgotten
		if !already {
			r.forgotten = true
			delete(g.resources, resource)
		}
		g.mu.Unlock()
		<-r.turn
		if !already {
			return
		}
	}
}

// enter notes t as the newest token of a resource, unless it is older than the newest.
func (g *Guard) enter(resource string, t Token) (*guarded, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	if len(resource) > MaxName {
		return nil, &NameError{Bytes: len(resource)}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.resources[resource]
	switch {
	case r == nil && len(g.resources) >= g.limit:
		return nil, &FullError{Resource: resource, Max: g.limit}
	case r == nil:
		r = &guarded{turn: make(chan struct{}, 1)}
		g.resources[strings.Clone(resource)] = r // a clone: the name may be a piece of something large
	case t < r.newest:
		return nil, &StaleError{Resource: resource, Token: t, Newest: r.newest}
	}
	r.newest = t
	return r, nil
}

// turn calls write when it is its turn, if t is still the newest token.
func (g *Guard) turn(ctx context.Context, r *guarded, resource string, t Token, write func(context.Context) error) (
	again bool, err error,
) {
	if ctx.Err() == nil {
		select {
		case r.turn <- struct{}{}:
			defer func() { <-r.turn }() // also when write panics
			if again, err := g.stands(r, resource, t); again || err != nil {
				return again, err
			}
			return false, write(ctx)
		case <-ctx.Done():
		}
	}
	return false, fmt.Errorf("write %q: wait for the write before: %w", resource, context.Cause(ctx))
}

// stands judges t anew, once its turn has come: a newer token may have come meanwhile. When the resource was forgotten
// meanwhile, the caller begins again.
func (g *Guard) stands(r *guarded, resource string, t Token) (again bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t < r.newest {
		return false, &StaleError{Resource: resource, Token: t, Newest: r.newest}
	}
	return r.forgotten, nil
}
