package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holdfast/test/sim/stats"
)

// outcome is the result of one process.
type outcome struct {
	// reports are the reports of the seeds that have ended, and of the seed at which the process crashed or hung.
	reports []stats.Report
	// next is the first seed that has not run.
	next uint64
	// cpu is the processor time of the process.
	cpu time.Duration
}

// grace is how much longer than its seeds' timeout a process may live. The test binary ends itself earlier, and prints
// the stacks of hanging goroutines.
const grace = 30 * time.Second

// parallel: one in this many processes gets all processors.
const parallel = 4

// process runs the seeds from from up to, but excluding, to in one process.
func (s *soak) process(ctx context.Context, from, to uint64) (outcome, error) {
	name := fmt.Sprintf("seeds-%d-%d", from, to-1)
	tmp, kept := filepath.Join(s.scratch, name), filepath.Join(s.o.artifacts, name)
	if err := errors.Join(os.MkdirAll(tmp, 0o700), os.MkdirAll(kept, 0o755)); err != nil {
		return outcome{}, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	timeout := time.Duration(to-from) * s.o.timeout
	bound, cancel := context.WithTimeout(ctx, timeout+min(grace, timeout))
	defer cancel()
	reports := filepath.Join(tmp, "reports")
	cmd := exec.CommandContext(bound, s.o.binary, "-test.run", "^TestSim$", "-test.parallel", "1", "-test.timeout",
		timeout.String(),
		"-test.artifacts", "-test.outputdir", kept)
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(),
		fmt.Sprintf("FROM=%d", from), fmt.Sprintf("SEEDS=%d", to-from), "SEED=", "SIM_REPORT="+reports, "TMPDIR="+tmp,
		"WITHOUT="+strings.Join(s.o.without, ","), "GOGC=400", "GOMEMLIMIT=2GiB")
	// With all workers busy, one processor for each process costs the least. Some processes get all processors, so that
	// their goroutines really run at the same time.
	if from/s.o.batch%parallel != 0 {
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	output, err := os.Create(filepath.Join(kept, "output.txt"))
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = output.Close() }()
	cmd.Stdout, cmd.Stderr = output, output
	failed := cmd.Run()
	if ctx.Err() != nil {
		return outcome{}, errors.Join(ctx.Err(), os.RemoveAll(kept))
	}
	o := outcome{next: to}
	if cmd.ProcessState != nil {
		o.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if failed == nil {
		o.reports, _, err = read(reports)
		return o, errors.Join(err, os.RemoveAll(kept))
	}
	return o, o.blame(reports, kept, failed)
}

// blame finds the seeds that made a process fail: those that report a failure, and the seed at or after which it died.
func (o *outcome) blame(reports, kept string, why error) error {
	ended, begun, err := read(reports)
	if err != nil {
		return err
	}
	o.reports = ended
	said := false
	for _, r := range ended {
		said = said || len(r.Failures) > 0
	}
	crashed := fmt.Sprintf("the process crashed or hung: %v: %s", why, reason(filepath.Join(kept, "output.txt")))
	switch {
	case len(begun) > 0:
	case said:
		return nil
	case len(ended) == 0:
		return fmt.Errorf("a process failed before its first seed: see %s: %w", kept, why)
	default: // leftovers of the seed ended the process before the next seed started
		last := &o.reports[len(ended)-1]
		last.Failures, last.Artifacts = []string{crashed}, kept
		o.next = last.Seed + 1
		return nil
	}
	died := begun[len(begun)-1]
	r := stats.New(died, 0)
	r.Failures = []string{crashed}
	r.Artifacts = kept
	o.reports = append(o.reports, *r)
	o.next = died + 1
	return nil
}

func read(path string) (ended []stats.Report, begun []uint64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	return stats.Read(f)
}

// reason returns the line of a process's output that shows why it died.
func reason(output string) string {
	b, err := os.ReadFile(output)
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(b)) {
		for _, begin := range []string{"panic:", "fatal error:", "WARNING: DATA RACE"} {
			if strings.HasPrefix(line, begin) {
				return strings.TrimSpace(line)
			}
		}
	}
	return "its output does not say"
}
