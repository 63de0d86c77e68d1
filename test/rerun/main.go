// Rerun runs "go test" and prints what it prints. A test that timed out, as package timeout marks it, is run once more,
// alone, after all others. If it passes then, its name and both outputs are reported after FLAKY, and rerun succeeds. A
// test that failed in any other way is never run again.
//
//	go run ./test/rerun [-v] [-C DIR] [-timings FILE] [-flaky FILE] -- -tags=e2e ./test/e2e
//
// A flag of "go test" has its value behind "=", so that rerun can tell flags from packages.
//
// With -timings the time of each test is added to a file, one line each, to find the slowest tests of a whole CI run;
// with -flaky the names of flaky tests.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"

	"holdfast/test/timeout"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) //nolint:forbidigo // this is main
	dir := flag.String("C", "", "run go test in this directory")
	verbose := flag.Bool("v", false, "print the output of tests that pass, too")
	timings := flag.String("timings", "", "add the seconds, package and name of each test to this file")
	flaky := flag.String("flaky", "", "add the names of flaky tests to this file")
	flag.Parse()
	ok, err := season{out: os.Stdout, verbose: *verbose, timings: *timings, flaky: *flaky, run: goTest(*dir)}.all(ctx,
		flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rerun:", err)
	}
	if err != nil || !ok {
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

// season is one call of rerun.
type season struct {
	out            io.Writer
	verbose        bool
	timings, flaky string
	// run runs "go test -json" with the arguments, writes its events to out, and returns an error if a test failed.
	run func(ctx context.Context, env []string, out io.Writer, args []string) error
}

// all reports whether each test passed, at the latest when it was run again.
func (s season) all(ctx context.Context, args []string) (bool, error) {
	first, failed := s.tests(ctx, []string{timeout.Variable + "=1"}, args)
	if err := add(s.timings, first.timings()); err != nil {
		return false, err
	}
	ok := failed == nil
	if !ok && !first.failed {
		return false, failed // go test itself failed
	}
	for _, t := range first.timedOut() {
		_, _ = fmt.Fprintf(s.out, "==== %s timed out, and is run once more, alone\n", t)
		again, failed := s.tests(ctx, []string{timeout.Variable + "="}, alone(args, t))
		passed := failed == nil && again.passed(t)
		ok = ok && passed
		if !passed {
			_, _ = fmt.Fprintf(s.out, "FAIL %s: timed out, then failed when it ran alone\n", t)
			continue
		}
		_, _ = fmt.Fprintf(s.out, "FLAKY %s: it timed out, and passed when it ran alone. Its first output:\n%s\n"+
			"FLAKY %s: its second output:\n%s\n", t, first.output(t), t, again.output(t))
		if err := add(s.flaky, fmt.Sprintln("FLAKY", t)); err != nil {
			return false, err
		}
	}
	return ok, ctx.Err()
}

func (s season) tests(ctx context.Context, env, args []string) (*report, error) {
	r := newReport(s.out, s.verbose)
	err := s.run(ctx, env, r, args)
	r.end()
	return r, err
}

// alone returns arguments that run one test of one package: the flags of the whole run, but for -run and -parallel. Flags
// behind the packages are the test's own, and stay there.
func alone(args []string, t test) []string {
	var before, behind []string
	packages := false
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-"):
			packages = true
		case packages:
			behind = append(behind, arg)
		case name != "run" && name != "parallel":
			before = append(before, arg)
		}
	}
	before = append(before, "-count=1", "-run=^"+regexp.QuoteMeta(t.name)+"$", t.pkg)
	return append(before, behind...)
}

func goTest(dir string) func(context.Context, []string, io.Writer, []string) error {
	return func(ctx context.Context, env []string, out io.Writer, args []string) error {
		cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		cmd.Stdout, cmd.Stderr = out, os.Stderr
		return cmd.Run()
	}
}

// add adds a text to the end of a file, if there is one.
func add(file, text string) error {
	if file == "" || text == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
