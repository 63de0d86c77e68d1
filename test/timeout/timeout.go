// Package timeout marks a test of whole processes that waited too long, which a busy machine can cause. A wrong answer
// is never marked: a judge that fails calls testing's own Error or Fatal.
//
// By itself a marked test fails. Under test/rerun it ends as skipped, with a line that test/rerun reads. A judge that
// fails before the timeout or in a clean-up after it still fails the test. So test/rerun knows a timeout from a failed
// judge, and runs only the former once more.
package timeout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

const (
	// Variable is set in the environment of tests that run under test/rerun. Its name does not begin as those of settings
	// do: nodes refuse a setting that they do not know.
	Variable = "RERUN_TIMEOUTS"
	// Mark begins the line of a test that timed out under test/rerun. The name of the test and ": " follow it.
	Mark = "TIMED OUT: "
)

// Fatalf ends a test that waited too long for something.
func Fatalf(tb testing.TB, format string, args ...any) {
	tb.Helper()
	text := fmt.Sprintf(format, args...)
	if os.Getenv(Variable) == "" { //nolint:forbidigo // test/rerun sets it
		tb.Fatal(text)
	}
	tb.Skip(Mark + tb.Name() + ": " + text)
}

// Check ends the test if err is not nil: as timed out if a deadline of a context or a
// connection caused err, as failed otherwise. Join the errors of several things with [Join].
func Check(tb testing.TB, err error) {
	tb.Helper()
	switch {
	case err == nil:
	case late(err):
		Fatalf(tb, "%v", err)
	default:
		tb.Fatal(err)
	}
}

func late(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// Join is errors.Join for the errors of several things. For [Check], a deadline has caused the result only if a deadline
// has caused every error: a deadline of one thing does not excuse the failure of another.
func Join(errs ...error) error {
	all := errors.Join(errs...)
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil || late(err) })
	if len(failed) == 0 {
		return all
	}
	return several{all, failed}
}

// several are errors of which a deadline did not cause some: the failed ones. Only those are found by [errors.Is].
type several struct {
	error
	failed []error
}

func (s several) Unwrap() []error { return s.failed }

// Until calls ok every interval until it reports true, and returns how long that took. After the limit it ends the test
// as timed out, with the text that ok returned last.
func Until(tb testing.TB, limit, interval time.Duration, what string, ok func() (bool, string)) time.Duration {
	tb.Helper()
	began := time.Now()
	for {
		done, last := ok()
		took := time.Since(began)
		if done {
			return took
		}
		if took > limit {
			Fatalf(tb, "%s: not within %v; last: %s", what, limit, last)
		}
		time.Sleep(interval) //nolint:forbidigo // between two looks
	}
}

// Ended reports whether the test has failed or timed out, for clean-ups that print logs of processes.
func Ended(tb testing.TB) bool {
	tb.Helper()
	return tb.Failed() || tb.Skipped()
}
