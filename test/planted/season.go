package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// season is one run over many bugs.
type season struct {
	lab            *lab
	workers, times int

	mu     sync.Mutex
	out    io.Writer // guarded by mu
	failed []string  // guarded by mu; the names of bugs and tests that failed
}

// run checks that all catchers pass without a bug, and then that they catch theirs.
func (s *season) run(ctx context.Context, bugs []bug) error {
	began := time.Now()
	if err := s.sound(ctx, bugs); err != nil {
		return err
	}
	s.print("%-36s %-78s %8s\n", "bug", "caught by", "seconds")
	s.each(len(bugs), func(i int) { s.plant(ctx, &bugs[i]) })
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(s.failed) > 0 {
		slices.Sort(s.failed)
		return fmt.Errorf("%d of %d bugs are not caught: %v", len(s.failed), len(bugs), s.failed)
	}
	s.print("all %d bugs are caught, in %.0f s\n", len(bugs), time.Since(began).Seconds())
	return nil
}

// each does n things, a few at a time.
func (s *season) each(n int, do func(i int)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, s.workers)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			do(i)
			<-slots
		})
	}
	all.Wait()
}

func (s *season) print(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.out, format, args...)
}

// fail notes, once, that a name failed, and prints why.
func (s *season) fail(name, by string, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.failed, name) {
		s.failed = append(s.failed, name)
	}
	_, _ = fmt.Fprintf(s.out, "%-36s %s\n*** %v\n\n", name, by, why)
}

// trial is one run of a catcher's test.
type trial struct {
	catcher *catcher
	setting string
}

// trials returns the runs of all bugs' catchers by package, without repetitions.
func trials(bugs []bug) (byPackage map[string][]trial, n int) {
	byPackage = make(map[string][]trial)
	known := make(map[string]bool)
	for _, b := range bugs {
		for i := range b.catchers {
			c := &b.catchers[i]
			for _, setting := range c.env {
				if key := fmt.Sprint(c.pkg, c.run, c.flags, setting); !known[key] {
					known[key] = true
					byPackage[c.pkg] = append(byPackage[c.pkg], trial{c, setting})
				}
			}
		}
	}
	return byPackage, len(known)
}

// sound runs the catchers of all bugs without any bug.
func (s *season) sound(ctx context.Context, bugs []bug) error {
	byPackage, n := trials(bugs)
	began := time.Now()
	pkgs := slices.Sorted(maps.Keys(byPackage))
	binaries := make([]string, len(pkgs))
	s.each(len(pkgs), func(i int) {
		var err error
		if binaries[i], err = s.lab.build(ctx, pkgs[i], ""); err != nil {
			s.fail(pkgs[i], "without any bug", err)
		}
	})
	if err := s.verdict(ctx); err != nil {
		return err
	}
	for i, pkg := range pkgs {
		of := byPackage[pkg]
		s.each(len(of), func(j int) {
			if err := s.lab.passes(ctx, binaries[i], of[j].catcher, of[j].setting); err != nil {
				s.fail(of[j].catcher.String(), of[j].setting, err)
			}
		})
	}
	if err := s.verdict(ctx); err != nil {
		return err
	}
	s.print("%d tests that catch pass without a bug, in %.0f s\n", n, time.Since(began).Seconds())
	return nil
}

// verdict returns an error if a test catches nothing.
func (s *season) verdict(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.failed) > 0 {
		return fmt.Errorf("these tests catch nothing: %v", s.failed)
	}
	return nil
}

// plant runs the catchers of one bug with the bug in place.
func (s *season) plant(ctx context.Context, b *bug) {
	overlay, err := s.lab.overlay(b)
	if err != nil {
		s.fail(b.name, "", err)
		return
	}
	for i := range b.catchers {
		s.hunt(ctx, b, &b.catchers[i], overlay)
	}
}

// again is how often a catcher that passed, or that failed with another message, has another chance, when each has one.
// A bug that shows itself in 99 of 100 runs must not fail one season in two of 200 bugs. The season says so, for such a
// test should be made to look longer.
const again = 2

// hunt runs one catcher against a bug, as often as requested.
func (s *season) hunt(ctx context.Context, b *bug, c *catcher, overlay string) {
	began := time.Now()
	binary, err := s.lab.build(ctx, c.pkg, overlay)
	if err != nil {
		s.fail(b.name, c.String(), err)
		return
	}
	caught, tries := 0, 0
	for range s.times {
		n, why := s.catch(ctx, binary, c)
		for more := again; more > 0 && s.times == 1 && missed(why); more-- {
			s.print("*** %s: %s: %v; once more\n", b.name, c, why)
			var m int
			m, why = s.catch(ctx, binary, c)
			n += m
		}
		if tries += n; why != nil {
			err = why
			continue
		}
		caught++
	}
	if caught*10 < s.times*9 {
		s.fail(b.name, c.String(), err)
		if s.times > 1 {
			s.print("*** caught %d of %d times\n", caught, s.times)
		}
		return
	}
	by := c.String()
	if s.times > 1 {
		by += fmt.Sprintf(", %d of %d times, %.1f runs each", caught, s.times, float64(tries)/float64(s.times))
	}
	s.print("%-36s %-78s %8.1f\n", b.name, by, time.Since(began).Seconds())
}

// catch tries the settings of the catcher's variable one after the other. It returns the number of tries, and why none
// caught the bug. The reason of a test that failed goes before the reason of a test that passed.
func (s *season) catch(ctx context.Context, binary string, c *catcher) (tries int, why error) {
	for _, setting := range c.env {
		tries++
		err := s.lab.try(ctx, binary, c, setting)
		switch {
		case err == nil:
			return tries, nil
		case !missed(err):
			return tries, err
		case why == nil || errors.Is(err, errOther):
			why = err
		}
	}
	return tries, why
}

// missed reports whether a catcher ran to its end, and did not say what it must.
func missed(why error) bool { return errors.Is(why, errPassed) || errors.Is(why, errOther) }
