//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holdfast/fence"
)

// The tests of locks run this test's program under "holdfast lock". These variables tell it what to do.
const (
	workerVar = "E2E_WORKER"     // what it does: the name of a job
	recordVar = "E2E_RECORD"     // the directory in which all workers of a test note what they do
	deathVar  = "E2E_WORKER_END" // how a round ends
)

// deaths are the ways in which a round ends.
const (
	itself   = "itself"   // the worker is killed
	itsGuard = "holdfast" // the command is killed that holds the lock
)

// jobs are what workers do that hold a lock. Each returns the exit code.
var jobs = map[string]func(*worker) int{"round": (*worker).round, "steady": (*worker).steady}

// worker is a program that runs while a lock is held.
type worker struct {
	dir   string
	token fence.Token
	// resource is the file that only holders may write.
	resource *fence.File
}

// work runs as a worker, and returns its exit code. It reports false for a process that is none.
func work() (code int, is bool) {
	name := os.Getenv(workerVar)
	if plain, found := programs[name]; found {
		return plain(), true
	}
	job, is := jobs[name]
	if !is {
		return 0, false
	}
	w := &worker{dir: os.Getenv(recordVar)}
	token, err := fence.Parse(os.Getenv("HOLDFAST_TOKEN"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1, true
	}
	w.token, w.resource = token, fence.NewFile(filepath.Join(w.dir, "resource"), 0o600)
	return job(w), true
}

// note adds a line to the record of the test: what, the token, the process and the time.
func (w *worker) note(what string) {
	f, err := os.OpenFile(recordIn(w.dir), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, what, w.token, os.Getpid(), time.Now().UnixNano())
		err = errors.Join(err, f.Close())
	}
	if err != nil { // the test is over
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func recordIn(dir string) string { return filepath.Join(dir, "record") }

// write writes the resource, and notes under its lock that it was written.
func (w *worker) write() {
	err := w.resource.Update(context.Background(), w.token, func() ([]byte, error) {
		w.note("wrote")
		return []byte(w.token.String()), nil
	})
	switch _, stale := errors.AsType[*fence.StaleError](err); {
	case stale:
		w.note("refused")
	case err != nil:
		w.note("failed:" + strings.ReplaceAll(err.Error(), " ", "_"))
	}
}

// round holds a lock of the kernel for a moment: nobody else may have it, because nobody else has the cluster's lock.
// The kernel takes it from a process that has ended, and from no other.
func (w *worker) round() int {
	inside, err := os.OpenFile(filepath.Join(w.dir, "inside"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		panic(err)
	}
	if err := syscall.Flock(int(inside.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		w.note("overlap")
		return 1
	}
	w.note("begin")
	w.write()
	switch os.Getenv(deathVar) {
	case itself:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case itsGuard:
		_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
		time.Sleep(time.Minute) // the kernel ends it before that, or the next round meets it
	}
	time.Sleep(rand.N(20 * time.Millisecond)) // the work
	w.note("end")
	return 0
}

// steady writes until it is killed. A SIGUSR1 stops it between two writes, until a SIGCONT.
func (w *worker) steady() int {
	heard, goesOn := make(chan os.Signal, 8), make(chan os.Signal, 8)
	signal.Notify(heard, syscall.SIGTERM, syscall.SIGUSR1)
	signal.Notify(goesOn, syscall.SIGCONT)
	w.note("begin")
	for {
		w.write()
		select {
		case s := <-heard:
			if s == syscall.SIGTERM {
				w.note("term")
				continue
			}
			w.note("stops")
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			<-goesOn // its threads stop a little later, and must not be in a write then
		case <-time.After(10 * time.Millisecond):
		}
	}
}
