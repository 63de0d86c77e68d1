// Package proc runs servers as processes for tests and benchmarks, and reads what they cost.
package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"holdfast/session"
)

const (
	// stopWait bounds an orderly end of a process; then it is killed.
	stopWait = 5 * time.Second
	// descriptors is how many files a process may have open: every session of ZooKeeper is a connection.
	descriptors = 200_000
)

// Process is a server. Its output goes to a file. It dies with this process.
type Process struct {
	spec  Spec
	cmd   *exec.Cmd
	log   *os.File
	ended chan struct{}
}

// Spec says what to start.
type Spec struct {
	Name string   // of the log file
	Dir  string   // the working directory, which also gets the log file
	Args []string // the program and its arguments
	Env  []string // variables besides those of this process
}

// Start starts a process. The caller stops it.
func Start(s Spec) (*Process, error) {
	log, err := os.Create(filepath.Join(s.Dir, s.Name+".log"))
	if err != nil {
		return nil, err
	}
	p := &Process{spec: s}
	if err = p.run(log); err != nil {
		return nil, err
	}
	return p, nil
}

// Restart starts a process that has ended once more. Its output goes on in the same file.
func (p *Process) Restart() error {
	<-p.ended
	log, err := os.OpenFile(p.Log(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	return p.run(log)
}

// run starts the process with its output to log.
func (p *Process) run(log *os.File) error {
	s := p.spec
	cmd := exec.Command(s.Args[0], s.Args[1:]...) //nolint:noctx // Stop ends it
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.Dir, append(os.Environ(), s.Env...), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", s.Name, err), log.Close())
	}
	ended := make(chan struct{})
	p.cmd, p.log, p.ended = cmd, log, ended
	go func() {
		defer close(ended)
		_ = cmd.Wait()
		_ = log.Close()
	}()
	return nil
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log returns the path of the process's output.
func (p *Process) Log() string { return p.log.Name() }

// Ended is closed once the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Kill ends the process at once. It does not wait for the end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
}

// Freeze stops the process until it is killed or continued, and returns when all its threads stand.
func (p *Process) Freeze(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	return Until(ctx, time.Millisecond, func(context.Context) error { return standing(p.PID()) })
}

// Continue lets a frozen process run again.
func (p *Process) Continue() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Stop ends the process in order, or kills it after a while, and returns when it has ended.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	bound := time.AfterFunc(stopWait, p.Kill)
	<-p.ended
	bound.Stop()
}

// RaiseLimits raises the limit of open files of this process, and so of those it starts, as far as it may.
func RaiseLimits() {
	now, err := limits()
	if err != nil || now.Cur >= descriptors {
		return
	}
	wanted := syscall.Rlimit{Cur: descriptors, Max: max(descriptors, now.Max)}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &wanted) != nil {
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: now.Max, Max: now.Max})
	}
}

// Files returns how many files this process may have open.
func Files() int {
	now, err := limits()
	if err != nil {
		return 0
	}
	return int(min(now.Cur, descriptors)) //nolint:gosec // bounded
}

func limits() (now syscall.Rlimit, err error) {
	err = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now)
	return now, err
}

// Until asks again and again, until ok returns nil. When ctx ends, the error is the last one of ok.
func Until(ctx context.Context, every time.Duration, ok func(context.Context) error) error {
	for {
		err := ok(ctx)
		if err == nil {
			return nil
		}
		if stopped := session.Sleep(ctx, every); stopped != nil {
			return fmt.Errorf("%w: %w", stopped, err)
		}
	}
}
