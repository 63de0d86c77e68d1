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
	// ErrBusy: somebody else holds it, and the call does not wait.
	ErrBusy = errors.New("held by somebody else")
	// ErrReleased: the grant was given up by its holder. It is the cause of the contexts of such a grant.
	ErrReleased = errors.New("grant was given up")
	// ErrBroken: somebody removed the entry of the grant, or of a caller that waited for one.
	ErrBroken = errors.New("entry was removed by somebody else")
	// ErrNoLeader: nobody leads.
	ErrNoLeader = errors.New("nobody leads")
	// ErrOverflow: a counter's sum is beyond 64 bits. The number is as it was.
	ErrOverflow = errors.New("counter would overflow")
	// ErrFull: as many as a [DoubleBarrier] is for have entered already, and not all of them have left.
	ErrFull = errors.New("all have entered already")
)

// Observer hears who waits for what recipes grant and who holds it, and for how long. Its methods must be safe for
// concurrent use, and must not block. Package recipes/metrics has one that counts for Prometheus.
//
// recipe is "lock", "read lock", "semaphore", "election", "queue", "once", "counter", "barrier", "double barrier" or
// "group", and path where its callers stand. A counter waits for its lock alone, after additions that were overtaken.
// Nobody holds a barrier.
type Observer interface {
	// Waits is called when a call begins that may have to wait. Waited is called when it ends.
	Waits(recipe, path string)
	// Waited is called when a caller that waited for a grant stops waiting: with nil when it has the grant, otherwise
	// with the reason why it has not: [ErrBusy] of a call that does not wait.
	Waited(recipe, path string, d time.Duration, err error)
	// Held is called when a grant is over, with the reason: [ErrReleased], [ErrBroken] or the end of the session.
	Held(recipe, path string, d time.Duration, why error)
}

// attempt is a call that may have to wait, and what it is granted, as an observer hears of it.
type attempt struct {
	to           Observer
	recipe, path string
	began        time.Time
}

// begins tells the observer of a call.
func (l line) begins(recipe string) attempt {
	l.o.observer.Waits(recipe, l.path)
	return attempt{l.o.observer, recipe, l.path, time.Now()}
}

// ended tells the observer that the call waits no more.
func (a attempt) ended(err error) { a.to.Waited(a.recipe, a.path, time.Since(a.began), err) }

// held tells the observer that what was granted is over.
func (a attempt) held(since time.Time, why error) {
	a.to.Held(a.recipe, a.path, time.Since(since), why)
}

// heldUntilOver is held for what ends with a place.
func (a attempt) heldUntilOver(p *place) {
	since := time.Now()
	context.AfterFunc(p.alive, func() { a.held(since, context.Cause(p.alive)) })
}

// Option changes a recipe.
type Option func(*options)

type options struct {
	linger   time.Duration
	acl      tree.ACL
	holder   string
	observer Observer
}

// WithLinger sets the lock-delay (F2): when the session of a holder expires, nobody else becomes the holder for so
// long. It gives work that obeys no context time to end. It is a whole number of milliseconds, at most
// [tree.MaxLinger]; none by default. A holder that gives up or closes its session makes way at once.
func WithLinger(d time.Duration) Option { return func(o *options) { o.linger = d } }

// WithACL gives the entries of the recipe an access list of their own. By default they have that of the entry above.
func WithACL(acl tree.ACL) Option { return func(o *options) { o.acl = acl } }

// WithHolder sets the text that tells people who waits or holds, see "holdfast lock show". By default it is the name of
// the host and the number of the process.
func WithHolder(text string) Option { return func(o *options) { o.holder = text } }

// WithObserver sets who hears of waiting and holding.
func WithObserver(to Observer) Option { return func(o *options) { o.observer = to } }

// silent is the observer of those who set none.
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
		host, _ := os.Hostname() // a holder may be without it
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
