// Bench plays the works of a session service against clusters of servers on loopback: Holdfast, ZooKeeper and
// etcd, in turns, and prints a table of medians. All servers have their default settings.
//
//	make bench-peers                               everything, three runs each
//	make bench-peers WORKS=open,opens RUNS=5       some works
//	.bin/bench -peers bin/node,old=/tmp/old/node   two builds of Holdfast, in turns
//
// The functions of package play that return a Work say what each work is. Absolute times are those of the machine, and
// of what else it does: compare columns of one run.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"holdfast/bench/play"
	"holdfast/bench/table"
	"holdfast/test/proc"
)

func main() {
	//nolint:forbidigo // this is main
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func run(ctx context.Context, args []string, out, errs io.Writer) error {
	o, err := parse(args, errs)
	if err != nil {
		return err
	}
	s := &season{options: o}
	if s.works, err = choose(o.works); err != nil {
		return err
	}
	if o.show != "" {
		return show(strings.Split(o.show, ","), out, s.works)
	}
	if s.systems, err = o.systems(); err != nil {
		return err
	}
	proc.RaiseLimits()
	if s.dir, err = os.MkdirTemp(o.dir, "holdfast-bench-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(s.dir) }()
	results := s.play(ctx)
	if o.json != "" {
		if err := save(o.json, results); err != nil {
			return err
		}
	}
	return errors.Join(results.Markdown(out, s.works), ctx.Err())
}

// show prints the table of runs that were saved.
func show(paths []string, out io.Writer, works []play.Work) error {
	var all []*table.Results
	for _, path := range paths {
		read, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		r := &table.Results{}
		if err := json.Unmarshal(read, r); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, r)
	}
	return table.Join(all).Markdown(out, works)
}

// save writes the figures of every run.
func save(path string, results *table.Results) error {
	encoded, err := json.MarshalIndent(results, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(encoded, '\n'), 0o600)
}
