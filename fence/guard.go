package fence

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

// MaxName is the largest number of bytes in the name of a resource: that of the longest path in the tree.
const MaxName = 4096

// StaleError refuses a token: the resource has seen a newer token, so another holder has the lock.
type StaleError struct {
	// Resource names the resource of the write: the name given to a [Guard], the path of a [File], or a URL.
	Resource string
	// Token is the token that was refused, Newest the newest token that the resource has seen.
	Token, Newest Token
}

// Error names the resource and both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("write %q: fence %v is older than %v: the lock has another holder now", e.Resource, e.Token,
		e.Newest)
}

// FullError refuses a resource that exceeds the capacity of a [Guard].
type FullError struct {
	Resource string
	// Max is the guard's largest number of resources.
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
// A guard remembers tokens for as long as its process runs. So it protects state that ends with the process: memory,
// devices that the process has opened, connections. State that outlives the process needs its token stored with it, as
// [File] and the examples for PostgreSQL keep it; or the program admits the stored tokens before it serves clients.
//
// A guard keeps at most the number of resources given to [NewGuard], with names of at most [MaxName] bytes. It never
// forgets a token on its own, because it would then admit an older token: a further resource is refused with a
// [*FullError].
type Guard struct {
	// limit is the largest number of resources.
	limit int

	mu        sync.Mutex
	resources map[string]*guarded // guarded by mu
}

// guarded is the guard's state of one resource.
type guarded struct {
	newest Token // guarded by Guard.mu
	// forgotten is set once the guard no longer has the resource: waiters start again. guarded by Guard.mu
	forgotten bool
	// turn holds a value while a callback runs.
	turn chan struct{}
}

// NewGuard returns a guard of at most limit resources, at least one. A resource costs about 200 bytes and its name.
func NewGuard(limit int) *Guard {
	return &Guard{limit: max(limit, 1), resources: make(map[string]*guarded)}
}

// Admit returns nil if t is the newest token of resource so far: larger than all others, or equal to the largest. From
// then on older tokens are refused. Admit waits for a running callback of [Guard.Do]: once it has returned nil, no
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
		again, err := g.admit(r, resource, t)
		<-r.turn
		if !again {
			return err
		}
	}
}

// Do admits t as [Guard.Admit] does, and calls write before any other callback or admission of the resource continues.
// So the check and the write are one step: the callbacks of a resource run one at a time, in the order of their tokens.
//
// The token counts from the moment of the call, also while Do waits: older tokens are refused from then on. When ctx
// ends before the callback's turn, Do returns the cause of ctx without calling write. A callback that never returns
// blocks its resource, because no other write may run at the same time: write should obey ctx. It must not call the
// guard for the same resource.
//
// Do returns the error of write. If Do returns an error of its own, one of [Guard.Admit]'s, write was not called.
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

// Forget drops the token of a resource without further writes, and frees capacity for another resource. It waits for a
// running callback. A write that comes later all the same is admitted.
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

// enter records t as the newest token of a resource, unless it is older than the newest.
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

// turn calls write in its turn, if t is still the newest token.
func (g *Guard) turn(ctx context.Context, r *guarded, resource string, t Token, write func(context.Context) error) (
	again bool, err error,
) {
	if ctx.Err() == nil {
		select {
		case r.turn <- struct{}{}:
			defer func() { <-r.turn }() // also when write panics
			if again, err := g.admit(r, resource, t); again || err != nil {
				return again, err
			}
			return false, write(ctx)
		case <-ctx.Done():
		}
	}
	return false, fmt.Errorf("write %q: wait for the write before: %w", resource, context.Cause(ctx))
}

// admit checks t again in its turn, because a newer token may have come meanwhile. When the resource was forgotten
// meanwhile, the caller starts again.
func (g *Guard) admit(r *guarded, resource string, t Token) (again bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t < r.newest {
		return false, &StaleError{Resource: resource, Token: t, Newest: r.newest}
	}
	return r.forgotten, nil
}
