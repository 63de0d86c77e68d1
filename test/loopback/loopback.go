// Package loopback gives tests TCP ports of the loopback at which a program is to listen later, perhaps repeatedly.
//
// A port that was free a moment ago is not enough. The system gives out ports from 32768 on by itself, as the near end
// of any connection, and other tests look for free ports at the same time. A port from here belongs to its test: it is
// below those that the system gives out, and a socket that never listens holds it. Whoever looks for a port here does
// not get it, and the test's own listeners, also those of other processes, can bind it.
package loopback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

const (
	// first and end bound the ports. make up has 17400 to 17499, and the tests with containers take theirs from 18000 on.
	first, end = 10_000, 17_000
	// tries is how many places are looked at.
	tries = 2000
)

// Free returns different addresses at which only the test listens, until it ends.
func Free(tb testing.TB, count int) []string {
	tb.Helper()
	all, release, err := hold(count)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(release)
	return all
}

// Base returns a port. It and those that follow at the given distances are the test's, until it ends.
func Base(tb testing.TB, distances ...int) int {
	tb.Helper()
	for range tries {
		base := first + rand.N(end-first)
		if release, err := holdAll(base, distances); err == nil {
			tb.Cleanup(release)
			return base
		}
	}
	tb.Fatal(errNone)
	return 0
}

// Own returns different addresses at which only this process and those that it starts listen, until it ends.
func Own(count int) ([]string, error) {
	all, _, err := hold(count)
	return all, err
}

var errNone = fmt.Errorf("there are no free ports between %d and %d", first, end)

// hold takes ports until release is called.
func hold(count int) (addresses []string, release func(), err error) {
	var held []func()
	release = func() { releaseAll(held) }
	for range tries {
		if len(addresses) == count {
			return addresses, release, nil
		}
		port := first + rand.N(end-first)
		if free, err := holdPort(port); err == nil {
			held, addresses = append(held, free), append(addresses, fmt.Sprintf("127.0.0.1:%d", port))
		}
	}
	release()
	return nil, nil, errNone
}

// holdAll takes the ports at some distances from base, or none.
func holdAll(base int, distances []int) (release func(), err error) {
	var held []func()
	for _, d := range distances {
		free, err := holdPort(base + d)
		if err != nil {
			releaseAll(held)
			return nil, errors.Join(errNone, err)
		}
		held = append(held, free)
	}
	return func() { releaseAll(held) }, nil
}

func releaseAll(held []func()) {
	for _, free := range held {
		free()
	}
}
