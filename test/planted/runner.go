package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// runner runs the catchers of many bugs.
type runner struct {
	lab            *lab
	workers, times int

	mu     sync.Mutex
	out    io.Writer // guarded by mu
	failed []string  // guarded by mu; the names of bugs that were not caught
}

// run plants one bug after the other and returns an error that names those not caught.
func (r *runner) run(ctx context.Context, bugs []bug) error {
	began := time.Now()
	r.print("%-36s %-78s %8s\n", "bug", "caught by", "seconds")
	var all sync.WaitGroup
	slots := make(chan struct{}, r.workers)
	for i := range bugs {
		slots <- struct{}{}
		all.Go(func() {
			r.plant(ctx, &bugs[i])
			<-slots
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(r.failed) > 0 {
		slices.Sort(r.failed)
		return fmt.Errorf("%d of %d bugs are not caught: %v", len(r.failed), len(bugs), r.failed)
	}
	r.print("all %d bugs are caught, in %.0f s\n", len(bugs), time.Since(began).Seconds())
	return nil
}

func (r *runner) print(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.out, format, args...)
}

func (r *runner) fail(b *bug, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, b.name)
	_, _ = fmt.Fprintf(r.out, "%-36s %s\n*** %v\n\n", b.name, b.catcher.String(), why)
}

// retries is how often a catcher that did not catch the bug runs again when it runs once. A bug that its test sees in 99
// of 100 runs must not fail one run in two over 100 bugs. The output names such tests: make them look longer.
const retries = 2

// plant builds the catcher with the bug in place and runs it.
func (r *runner) plant(ctx context.Context, b *bug) {
	began := time.Now()
	binary, err := r.lab.build(ctx, b)
	if err != nil {
		r.fail(b, err)
		return
	}
	caught := 0
	for range r.times {
		why := r.catch(ctx, binary, &b.catcher)
		for more := retries; more > 0 && r.times == 1 && missed(why); more-- {
			r.print("*** %s: %s: %v; once more\n", b.name, &b.catcher, why)
			why = r.catch(ctx, binary, &b.catcher)
		}
		if why == nil {
			caught++
		} else {
			err = why
		}
	}
	if caught*10 < r.times*9 {
		r.fail(b, fmt.Errorf("caught %d of %d times: %w", caught, r.times, err))
		return
	}
	by := b.catcher.String()
	if r.times > 1 {
		by += fmt.Sprintf(", %d of %d times", caught, r.times)
	}
	r.print("%-36s %-78s %8.1f\n", b.name, by, time.Since(began).Seconds())
}

// catch tries the settings of the catcher's variable in turn until one catches the bug. Otherwise it returns why not: a
// failure with another message goes before a test that passed.
func (r *runner) catch(ctx context.Context, binary string, c *catcher) (why error) {
	for _, setting := range c.env {
		err := r.lab.try(ctx, binary, c, setting)
		if err == nil || !missed(err) {
			return err
		}
		if why == nil || errors.Is(err, errOther) {
			why = err
		}
	}
	return why
}

// missed reports whether a catcher ran to its end without the expected message.
func missed(why error) bool { return errors.Is(why, errPassed) || errors.Is(why, errOther) }
