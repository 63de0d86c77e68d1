package recipes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// Errors of the recipes, besides those of [client.Tree].
var (
	// ErrBusy: another caller holds it, and the call does not wait.
	ErrBusy = errors.New("held by another caller")
	// ErrReleased: the holder gave the grant up. It is the cause of the grant's contexts.
	ErrReleased = errors.New("grant was given up")
	// ErrBroken: the entry of the grant, or of a waiting caller, was removed by another client.
	ErrBroken = errors.New("entry was removed by another client")
	// ErrNoLeader: there is no leader.
	ErrNoLeader = errors.New("there is no leader")
	// ErrOverflow: a counter's sum exceeds 64 bits. The number is unchanged.
	ErrOverflow = errors.New("counter would overflow")
	// ErrFull: as many as a [DoubleBarrier] is for have entered already, and not all of them have left.
	ErrFull = errors.New("all have entered already")
)

// Observer observes waits and grants of recipes, and their durations. Its methods must be safe for concurrent use, and
// must not block. Package recipes/metrics has an Observer for Prometheus.
//
// recipe is "lock", "read lock", "semaphore", "election", "queue", "once", "counter", "barrier", "double barrier" or
// "group", and path the recipe's path. A counter waits for its lock alone, after overtaken additions. A barrier has no
// holders.
type Observer interface {
	// Waits is called when a call begins that may have to wait. Waited is called when it ends.
	Waits(recipe, path string)
	// Waited is called when a caller that waited for a grant stops waiting: with nil when it has the grant, otherwise
	// with the reason why it has not: [ErrBusy] of a call that does not wait.
	Waited(recipe, path string, d time.Duration, err error)
	// Held is called when a grant is over, with the reason: [ErrReleased], [ErrBroken] or the end of the session.
	Held(recipe, path string, d time.Duration, why error)
}

// attempt reports a call that may have to wait, and its grant, to the observer.
type attempt struct {
	to           Observer
	recipe, path string
	began        time.Time
}

// begins reports the start of a call.
func (l line) begins(recipe string) attempt {
	l.o.observer.Waits(recipe, l.path)
	return attempt{l.o.observer, recipe, l.path, time.Now()}
}

// ended reports that the call has stopped waiting.
func (a attempt) ended(err error) { a.to.Waited(a.recipe, a.path, time.Since(a.began), err) }

// held reports the end of a grant.
func (a attempt) held(since time.Time, why error) {
	a.to.Held(a.recipe, a.path, time.Since(since), why)
}

// heldUntilOver reports the end of a grant that ends with a place.
func (a attempt) heldUntilOver(p *place) {
	since := time.Now()
	context.AfterFunc(p.alive, func() { a.held(since, context.Cause(p.alive)) })
}

// Option changes a recipe.
type Option func(*options)

type options struct {
	lockDelay time.Duration
	acl       tree.ACL
	holder    string
	observer  Observer
}

// WithLockDelay sets the lock-delay (H2 lock-delay): when the session of a holder expires, no other caller becomes the
// holder during this delay. The delay gives work that obeys no context time to end. It is a whole number of
// milliseconds, at most [tree.MaxLockDelay]; none by default. A holder that gives up or closes its session makes way at
// once.
func WithLockDelay(d time.Duration) Option { return func(o *options) { o.lockDelay = d } }

// WithACL sets the access list of the recipe's entries. By default they have that of the entry above.
func WithACL(acl tree.ACL) Option { return func(o *options) { o.acl = acl } }

// WithHolder sets the text that describes the waiter or holder to people, see "holdfast lock show". The default is the
// host's name and the process id.
func WithHolder(text string) Option { return func(o *options) { o.holder = text } }

// WithObserver sets the observer of waits and grants.
func WithObserver(to Observer) Option { return func(o *options) { o.observer = to } }

// silent is the default observer.
type silent struct{}

func (silent) Waits(string, string)                        {}
func (silent) Waited(string, string, time.Duration, error) {}
func (silent) Held(string, string, time.Duration, error)   {}

func optionsOf(all []Option) options {
	o := options{observer: silent{}}
	for _, set := range all {
		set(&o)
	}
	if o.holder == "" {
		host, _ := os.Hostname() // the host's name may be missing
		o.holder = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	return o
}

// checkName returns a [session.FieldError] unless an entry may have the name.
func checkName(field, name string) error {
	if name == "" || tree.CheckPath("/"+name) != nil || tree.Depth("/"+name) != 1 {
		return &session.FieldError{Field: field, Limit: "a name that an entry may have"}
	}
	return nil
}

// check returns a [session.FieldError] unless path may be that of a recipe.
func check(path string) error {
	if path == tree.Root {
		return &session.FieldError{Field: "path", Limit: "below the root"}
	}
	return tree.CheckPath(path)
}
