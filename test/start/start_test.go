//go:build e2e

// Package start runs the commands and programs of README.md and docs/start as a reader types them, at a cluster that
// "node dev" runs on free ports. Build tag e2e; "make test-start" runs it.
package start

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/test/loopback"
	"holdfast/test/proc"
	"holdfast/test/skip"
	"holdfast/test/timeout"
)

const (
	startWait = time.Minute
	pageWait  = 3 * time.Minute
	// python is Debian's, whose packages the pages name.
	python = "/usr/bin/python3"
)

// reader is somebody who types the pages, in a directory that stands for the repository.
type reader struct {
	t         *testing.T
	root, dir string
	base      int // the port that the pages call 7400
}

func newReader(t *testing.T) *reader {
	t.Helper()
	root, err := filepath.Abs("../..")
	timeout.Check(t, err)
	r := &reader{t: t, root: root, dir: t.TempDir()}
	for _, shared := range []string{"proto", ".bin"} {
		timeout.Check(t, os.Symlink(filepath.Join(root, shared), filepath.Join(r.dir, shared)))
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(r.dir, "bin")+"/", "./cmd/...")
	build.Dir = root
	if out, failed := build.CombinedOutput(); failed != nil {
		t.Fatalf("building: %v: %s", failed, out)
	}
	var distances []int
	for n := range 3 {
		for port := range 5 {
			distances = append(distances, 10*n+port)
		}
	}
	r.base = loopback.Base(t, distances...)
	process, err := proc.Start(proc.Spec{
		Name: "nodes", Dir: r.dir,
		Args: []string{filepath.Join(r.dir, "bin", "node"), "dev", "--port-base", strconv.Itoa(r.base)},
	})
	timeout.Check(t, err)
	t.Cleanup(process.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), startWait)
	defer cancel()
	timeout.Check(t, proc.Until(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		for n := range 3 {
			health := exec.CommandContext(ctx, filepath.Join(r.dir, "bin", "node"), "health", "--address",
				fmt.Sprintf("127.0.0.1:%d", r.base+10*n+3))
			if out, err := health.CombinedOutput(); err != nil {
				return fmt.Errorf("node %d: %w: %s", n+1, err, out)
			}
		}
		return nil
	}))
	return r
}

// blocks returns the blocks of a language of a page, at the ports of the test. Blocks that start a cluster or run all
// tests, and the build that the test has done, are left out.
func (r *reader) blocks(page, language string) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.root, page))
	timeout.Check(r.t, err)
	var all strings.Builder
	for _, found := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(found[1], "node dev") && !strings.HasPrefix(found[1], "make test ") {
			all.WriteString(found[1])
		}
	}
	if all.Len() == 0 {
		r.t.Fatalf("%s has no block of %s", page, language)
	}
	moved := regexp.MustCompile(`\b74\d\d\b`).ReplaceAllStringFunc(all.String(), func(port string) string {
		number, _ := strconv.Atoi(port)
		return strconv.Itoa(r.base + number - 7400)
	})
	return strings.ReplaceAll(moved, "go build -o bin/ ./cmd/holdfast\n", "")
}

// run returns what a program says. Its children end with it.
func (r *reader) run(dir string, args ...string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), pageWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PYTHONPATH="+filepath.Join(r.dir, "bin", "python"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := os.Create(filepath.Join(r.t.TempDir(), "said"))
	timeout.Check(r.t, err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what runs in the background
	said, readErr := os.ReadFile(out.Name())
	timeout.Check(r.t, readErr)
	if err != nil {
		timeout.Fatalf(r.t, "%v: %v\n%s", args, err, said)
	}
	return string(said)
}

func (r *reader) shell(page string) string {
	r.t.Helper()
	return r.run(r.dir, "bash", "-euo", "pipefail", "-c", r.blocks(page, "sh"))
}

// program runs a program of a page, which begins with the lines of command.
func (r *reader) program(page, language, name, dir string, command ...string) string {
	r.t.Helper()
	file := filepath.Join(r.dir, name)
	timeout.Check(r.t, os.WriteFile(file, []byte(r.blocks(page, language)), 0o600))
	return r.run(dir, append(command, file)...)
}

// says fails for each text that a page promises and that was not printed.
func says(t *testing.T, said string, want ...string) {
	t.Helper()
	for _, one := range want {
		if !strings.Contains(said, one) {
			t.Errorf("nothing says %q in:\n%s", one, said)
		}
	}
}

// needs skips the test where something is missing that a package of Debian has.
func needs(t *testing.T, args []string, debian string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		skip.Test(t, fmt.Sprintf("%v: %v: %s (Debian: %s)", args, err, out, debian))
	}
}

func TestReadme(t *testing.T) {
	says(t, newReader(t).shell("README.md"), "holds", "holdfast=lock")
}

func TestShell(t *testing.T) {
	says(t, newReader(t).shell("docs/start/README.md"), "follower", "is alive.", "it expired", "first, token", "second, token",
		"the lock is free again", "web1", "created          /services/web1", "deleted          /services/web1")
}

func TestGo(t *testing.T) {
	r := newReader(t)
	says(t, r.program("docs/start/go.md", "go", "tour.go", r.root, "go", "run"), "session is open: true",
		"event: created /locks/report/", "locked, token is set: true", "event: deleted /locks/report/")
}

func TestPython(t *testing.T) {
	needs(t, []string{python, "-c", "import grpc"}, "python3-grpcio")
	needs(t, []string{"test", "-x", "/usr/bin/grpc_python_plugin"}, "protobuf-compiler-grpc")
	needs(t, []string{"test", "-d", "/usr/include/google/protobuf"}, "libprotobuf-dev")
	r := newReader(t)
	r.shell("docs/start/python.md")
	says(t, r.program("docs/start/python.md", "python", "tour.py", r.dir, python), "session is open: True",
		"locked, token is set: True", "still safe: True", "event: EVENT_KIND_DELETED /locks/python")
}

func TestCurl(t *testing.T) {
	needs(t, []string{"curl", "--version"}, "curl")
	needs(t, []string{"test", "-x", "../../.bin/buf"}, "none: make .bin/buf")
	says(t, newReader(t).shell("docs/start/curl.md"), "holdfast_sessions ", `"safeFor": "39.`, `"path": "/locks/curl"`,
		"already_exists", "ENTRY_KIND_EPHEMERAL", "EVENT_KIND_DELETED")
}

func TestKazoo(t *testing.T) {
	needs(t, []string{python, "-c", "import kazoo"}, "python3-kazoo")
	r := newReader(t)
	says(t, r.program("docs/start/kazoo.md", "python", "tour.py", r.dir, python), "connected: True", "locked",
		"services: ['web1']", "services: []")
}
