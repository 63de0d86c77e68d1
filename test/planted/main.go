// Planted puts bugs into production code, one at a time, and runs the tests that must catch them. Each bug is a patch
// of bugs/ that is applied to a copy, so that production has no switches for bugs. First it runs the tests without any
// bug: a test that always fails catches nothing.
//
// Planted fails when a bug goes uncaught, when a patch does not apply to today's code, when a patched package does not
// build, and when a test fails without the expected message.
//
//	go run ./test/planted                          each bug against the first of its catchers
//	go run ./test/planted -simulate 'two-owners'   some of them against the simulation too
//	go run ./test/planted -all                     against all of them
//	go run ./test/planted -bug 'observers' -times 10   how reliably it is caught
//	go run ./test/planted -share 7/3               a third of the bugs: every third one, and another third for 8/3
//	go run ./test/planted -write                   bring the table in README.md up to date
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

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("planted", flag.ContinueOnError)
	which := flags.String("bug", "", "only bugs whose name matches")
	through := flags.String("catcher",
		"", "only catchers whose package and test match; all of them, not only the first")
	simulate := flags.String("simulate", "^$", "for bugs whose name matches, try the simulation besides the first catcher")
	share := flags.String("share", "1/1", "with k/n, one nth of the bugs; n values of k in a row take all of them")
	all := flags.Bool("all", false, "try all catchers of each bug, not only the first")
	times := flags.Int("times", 1, "try each catcher that often; 9 of 10 times it must catch")
	workers := flags.Int("workers", 2, "bugs at a time")
	limit := flags.Duration("limit", 2*time.Minute, "for one run of one test")
	show := flags.Bool("show", false, "print what the tests say that catch")
	write := flags.Bool("write", false, "only write the table into README.md")
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
		return writeTable(filepath.Join(dir, "README.md"), bugs)
	}
	chosen, err := choose(bugs, choice{*which, *through, *simulate, *all})
	if err != nil {
		return err
	}
	if chosen, err = shareOf(chosen, *share); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "planted-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	s := &season{
		lab: &lab{root: root, scratch: scratch, limit: *limit}, out: out, workers: *workers, times: *times,
	}
	if *show {
		s.lab.heard = func(c *catcher, output string) { s.print("%s says:\n%s\n", c, output) }
	}
	return s.run(ctx, chosen)
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
		return nil, fmt.Errorf("-share %q: it has none of the %d chosen bugs", share, len(bugs))
	}
	return part, nil
}

// choice is what the flags of the same names select.
type choice struct {
	bug, catcher, simulate string
	all                    bool
}

// catchers returns the selected catchers of a bug.
func (o choice) catchers(b *bug, catches, simulate *regexp.Regexp) (chosen []catcher) {
	every, simulated := o.all || o.catcher != "", simulate.MatchString(b.name)
	for i, c := range b.catchers {
		if (every || i == 0 || simulated && c.pkg == simulation) && catches.MatchString(c.String()) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// choose returns the selected bugs, each with its selected catchers.
func choose(bugs []bug, o choice) ([]bug, error) {
	var words [3]*regexp.Regexp
	for i, text := range []string{o.bug, o.catcher, o.simulate} {
		var err error
		if words[i], err = regexp.Compile(text); err != nil {
			return nil, err
		}
	}
	name, catches, simulate := words[0], words[1], words[2]
	var chosen []bug
	for _, b := range bugs {
		b.catchers = o.catchers(&b, catches, simulate)
		if len(b.catchers) > 0 && name.MatchString(b.name) {
			chosen = append(chosen, b)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("choose bugs: no bug matches -bug %q with a catcher that matches -catcher %q", o.bug,
			o.catcher)
	}
	return chosen, nil
}
