// Planted puts bugs into production code, one at a time, and runs the test that must catch each. A bug is a patch of
// bugs/ that is applied to a copy, so that production has no switches for bugs.
//
// Planted fails when a bug goes uncaught, when a patch does not apply to today's code, when a patched package does not
// build, and when a test fails without the expected message.
//
//	go run ./test/planted                              all bugs
//	go run ./test/planted -bug two-owners -show        one bug, and what its test says
//	go run ./test/planted -bug two-owners -times 10    how reliably it is caught: 9 of 10 times it must be
//	go run ./test/planted -share 7/6                   a sixth of the bugs: every sixth one; another sixth for 8/6
//	go run ./test/planted -write                       bring the tables in bugs/README.md up to date
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
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) //nolint:forbidigo // this is main
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "planted:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

// limit bounds one run of one test.
const limit = 2 * time.Minute

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("planted", flag.ContinueOnError)
	which := flags.String("bug", "", "only bugs whose name matches this regular expression")
	share := flags.String("share", "1/1", "with k/n, one nth of the bugs; n values of k in a row take all of them")
	times := flags.Int("times", 1, "try each bug that often; 9 of 10 times it must be caught")
	workers := flags.Int("workers", 2, "bugs at a time")
	show := flags.Bool("show", false, "print what the tests say that catch")
	write := flags.Bool("write", false, "only write the tables into bugs/README.md")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "test", "planted")
	bugs, err := readBugs(filepath.Join(dir, "bugs"))
	if err != nil {
		return err
	}
	if *write {
		return writeTable(filepath.Join(dir, "bugs", "README.md"), bugs)
	}
	name, err := regexp.Compile(*which)
	if err != nil {
		return err
	}
	bugs = slices.DeleteFunc(bugs, func(b bug) bool { return !name.MatchString(b.name) })
	if bugs, err = shareOf(bugs, *share); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "planted-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	r := &runner{lab: &lab{root: root, scratch: scratch, limit: limit}, out: out, workers: *workers, times: *times}
	if *show {
		r.lab.heard = func(c *catcher, output string) { r.print("%s says:\n%s\n", c, output) }
	}
	return r.run(ctx, bugs)
}

// moduleRoot returns the directory of go.mod.
func moduleRoot(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(output)), nil
}

// shareOf returns the part of the bugs that share, k/n, names.
func shareOf(bugs []bug, share string) (part []bug, err error) {
	first, second, _ := strings.Cut(share, "/")
	k, errK := strconv.ParseUint(first, 10, 32)
	n, errN := strconv.ParseUint(second, 10, 32)
	if errK != nil || errN != nil || n == 0 {
		return nil, fmt.Errorf("-share %q: want k/n, two numbers, n at least 1", share)
	}
	for i, b := range bugs {
		if uint64(i)%n == k%n {
			part = append(part, b)
		}
	}
	if len(part) == 0 {
		return nil, fmt.Errorf("-share %q: none of the %d bugs that -bug matches", share, len(bugs))
	}
	return part, nil
}
