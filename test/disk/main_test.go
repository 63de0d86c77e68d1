//go:build e2e

package disk

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/test/altered"
	"holdfast/test/timeout"
)

// commandTimeout bounds every command.
const commandTimeout = 2 * time.Minute

// programs are the binaries under test, built once. snapshots is a node that makes snapshots, and cuts its log, all the
// time.
type programs struct{ dir, node, snapshots, faultd string }

var built struct {
	sync.Mutex
	programs
}

func TestMain(m *testing.M) {
	for variable, work := range map[string]func(string, io.Writer) error{writerVar: writer, readerVar: inspect} {
		file := os.Getenv(variable)
		if file == "" {
			continue
		}
		if err := work(file, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	go spawner()
	code := m.Run()
	os.RemoveAll(built.dir)
	os.Exit(code)
}

// build builds the programs when they are first needed.
func build(t *testing.T) programs {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir != "" {
		return built.programs
	}
	dir, err := os.MkdirTemp("", "holdfast-disk-") //nolint:usetesting // all tests share it
	timeout.Check(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+"/", "holdfast/cmd/node", "holdfast/test/disk/faultd")
	if out, failed := cmd.CombinedOutput(); failed != nil {
		os.RemoveAll(dir)
		t.Fatalf("%v: %s", failed, out)
	}
	snapshots, err := altered.Node(ctx, dir, "../..", altered.Snapshots("300 * time.Millisecond", 40, 20))
	if err != nil {
		os.RemoveAll(dir)
		t.Fatal(err)
	}
	built.programs = programs{dir, filepath.Join(dir, "node"), snapshots, filepath.Join(dir, "faultd")}
	return built.programs
}

// spawn starts processes from one thread that never ends. The kernel kills a process with the thread that started it,
// so no node outlives a test that was killed.
var spawn = make(chan func())

func spawner() {
	runtime.LockOSThread()
	for start := range spawn {
		start()
	}
}

// start starts a process that dies with the test.
func start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	spawn <- func() { started <- cmd.Start() }
	return <-started
}

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// within fails a test whose step hangs: a program on a hung disk hangs, too.
func within(t *testing.T, d time.Duration, what string, step func() error) {
	t.Helper()
	timeout.Check(t, bounded(d, what, step))
}

func bounded(d time.Duration, what string, step func() error) error {
	done := make(chan error, 1)
	go func() { done <- step() }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("%s hangs: %w", what, context.DeadlineExceeded)
	}
}

// await polls until ok reports true. If that takes longer than d, it fails the test with ok's last text.
func await(t *testing.T, d time.Duration, what string, ok func() (bool, string)) time.Duration {
	t.Helper()
	took, err := eventually(d, what, ok)
	timeout.Check(t, err)
	return took
}

func eventually(d time.Duration, what string, ok func() (bool, string)) (time.Duration, error) {
	begin := time.Now()
	for {
		done, got := ok()
		switch took := time.Since(begin); {
		case done:
			return took, nil
		case took > d:
			return took, fmt.Errorf("%s: %w of %v; last: %s", what, context.DeadlineExceeded, d, got)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
