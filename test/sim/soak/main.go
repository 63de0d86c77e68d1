// Soak runs many seeds of the simulation, and summarises them. Each process runs a few dozen seeds, and there is one
// process per core:
//
//	go run ./test/sim/soak -seeds 20000 -from 1 -json bin/soak.json
//
// When a process crashes or hangs, its current seed counts as a failure, and the rest of its batch runs again. Soak
// exits with 1 when a seed failed, or when over many seeds a kind of fault never hit or an invariant was never tested.
// The directory of -artifacts keeps the histories of failed seeds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"holdfast/test/sim/check"
)

func main() {
	//nolint:forbidigo // this is main
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

// options is the command line.
type options struct {
	from, seeds uint64
	// workers is how many batches run at the same time, each in a process of its own.
	workers int
	batch   uint64
	// timeout bounds the time of one seed.
	timeout   time.Duration
	race      bool
	json      string
	artifacts string
	// binary is the simulation's test binary; "" builds it.
	binary string
	// without are clients that are left out.
	without []string
}

var (
	errFailed      = errors.New("failed")
	errInterrupted = errors.New("interrupted")
)

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("soak", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Uint64Var(&o.seeds, "seeds", 300, "number of `seeds`")
	fs.Uint64Var(&o.from, "from", 1, "first `seed`")
	fs.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "`processes` at a time")
	fs.Uint64Var(&o.batch, "batch", 24, "`seeds` of one process")
	fs.DurationVar(&o.timeout, "timeout", 3*time.Minute, "what one seed may take before it counts as hanging")
	fs.BoolVar(&o.race, "race", false, "build with the race detector")
	fs.StringVar(&o.json, "json", "", "write the summary to this `file` as JSON")
	fs.StringVar(&o.artifacts, "artifacts", "soak-artifacts", "keep what failing seeds leave in this `directory`")
	fs.StringVar(&o.binary, "binary", "", "run this test `binary` instead of building one")
	fs.Func("without", "leave out some `clients`: authors, contenders, workers", func(all string) error {
		for one := range strings.SplitSeq(all, ",") {
			if one != "" && !slices.Contains(check.LeftOut(), one) {
				return fmt.Errorf("%q: must be one of %v", one, check.LeftOut())
			}
			o.without = append(o.without, one)
		}
		return nil
	})
	if err := fs.Parse(args); err != nil {
		return options{}, err
	}
	if o.seeds < 1 || o.from < 1 || o.workers < 1 || o.batch < 1 || o.timeout <= 0 || fs.NArg() > 0 {
		return options{}, errors.New(
			"read the command line: all numbers must be positive, and arguments are not allowed",
		)
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(memory(), "holdfast-soak-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if o.artifacts, err = filepath.Abs(o.artifacts); err != nil {
		return err
	}
	if o.binary == "" {
		o.binary = filepath.Join(scratch, "sim.test")
		if err := build(ctx, o, stderr); err != nil {
			return err
		}
	}
	s := newSoak(o, scratch, newProgress(stderr, o.seeds))
	s.run(ctx)
	if err := s.report(stdout); err != nil {
		return err
	}
	return s.verdict(ctx)
}

// memory returns the directory whose files Linux keeps in memory, "" if there is none.
func memory() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return ""
}

func build(ctx context.Context, o options, stderr io.Writer) error {
	args := []string{"test", "-c", "-o", o.binary}
	if o.race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "holdfast/test/sim")...)
	cmd.Stderr = stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the simulation: %w", err)
	}
	return nil
}
