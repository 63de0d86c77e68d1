// Package clitest runs command lines for the tests of commands: in this process, in separate processes, and with whole
// clusters.
package clitest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/internal/cli"
)

// mainVariable makes the test binary act as the program.
const mainVariable = "HOLDFAST_TEST_MAIN"

// newRoot makes the commands of the test binary.
var newRoot func(*cli.Env) *cobra.Command

// Main runs the tests of a package with the commands of groups. In a process that [Command] started it runs a command
// line instead.
func Main(m *testing.M, groups ...func(*cli.Env) []*cobra.Command) {
	MainWith(m, func(env *cli.Env) *cobra.Command {
		root := &cobra.Command{Use: "holdfast"}
		for _, group := range groups {
			root.AddCommand(group(env)...)
		}
		return root
	})
}

// MainWith is [Main] with a whole program.
func MainWith(m *testing.M, root func(*cli.Env) *cobra.Command) {
	newRoot = root
	if os.Getenv(mainVariable) == "" {
		code := m.Run()
		binary.cleanUp()
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Run runs a command line, and returns its exit code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	env := cli.NewEnv(stdin, stdout, stderr)
	return cli.Main(ctx, env, newRoot(env), args)
}

// Command returns a process that runs a command line.
func Command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), mainVariable+"=1")
	return cmd
}

// Execute runs a command line.
func Execute(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// InTime runs a check with growing limits for --call-timeout or --wait, until the check returns no problem. A refused
// command lasts as long as its limit, and a busy machine needs long to answer at all.
func InTime(t *testing.T, check func(limit string) (problem string)) {
	t.Helper()
	problem := ""
	for _, limit := range []string{"1s", "5s", "30s"} {
		if problem = check(limit); problem == "" {
			return
		}
	}
	t.Error(problem)
}

// WantOutput fails unless got equals want, ignoring surrounding space.
func WantOutput(t *testing.T, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// Canonical returns the JSON in s with sorted keys and indentation.
func Canonical(t *testing.T, s string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Succeed runs a command line that must succeed, and returns its output.
func Succeed(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := Execute(t, "", Patient(args)...)
	if code != cli.ExitDone {
		t.Fatalf("%q: exit code %d, %s", args, code, stderr)
	}
	return stdout
}

// Patient gives the calls of a command a minute, for a busy machine, unless the command line says otherwise.
func Patient(args []string) []string {
	if slices.Contains(args, "--call-timeout") {
		return args
	}
	end := slices.Index(args, "--") // the arguments of another program follow
	if end < 0 {
		end = len(args)
	}
	return slices.Insert(slices.Clone(args), end, "--call-timeout", "1m")
}

// Buffer collects a process's standard error. Safe for concurrent use.
type Buffer struct {
	mu  sync.Mutex
	all bytes.Buffer // guarded by mu
}

func (c *Buffer) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.Write(b)
}

func (c *Buffer) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.String()
}

// Silence is a standard input without any input.
type Silence struct {
	// Asked is closed when the command reads, and ended ends the Read after the test.
	Asked, ended chan struct{}
	once         sync.Once
}

// NewSilence returns a server that answers nothing until the end of the test.
func NewSilence(t *testing.T) *Silence {
	t.Helper()
	s := &Silence{Asked: make(chan struct{}), ended: make(chan struct{})}
	t.Cleanup(func() { close(s.ended) })
	return s
}

func (s *Silence) Read([]byte) (int, error) {
	s.once.Do(func() { close(s.Asked) })
	<-s.ended
	return 0, io.EOF
}

// ErrInterrupt ends a command's context, like a signal.
var ErrInterrupt = errors.New("interrupt signal received")

// Interrupt runs a command line, interrupts it once begun is closed, and returns how it ended.
func Interrupt(t *testing.T, stdin io.Reader, begun <-chan struct{}, args ...string,
) (code int, stdout, stderr string) {
	t.Helper()
	ctx, interrupt := context.WithCancelCause(t.Context())
	var out, errs Buffer
	ended := make(chan int, 1)
	go func() { ended <- Run(ctx, args, stdin, &out, &errs) }()
	const patience = time.Minute
	late := time.After(patience)
	select {
	case <-begun:
	case code = <-ended:
		t.Fatalf("%v: ended before it was interrupted: exit code %d, %s", args, code, errs.String())
	case <-late:
		t.Fatalf("%v: has not read its input", args)
	}
	interrupt(ErrInterrupt)
	select {
	case code = <-ended:
	case <-late:
		t.Fatalf("%v: runs on though it was interrupted", args)
	}
	return code, out.String(), errs.String()
}

// Follow runs a command until stop. It returns the lines one by one.
func Follow(t *testing.T, args ...string) (next func(v any), stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, w := io.Pipe()
	code := make(chan int, 1)
	var stderr strings.Builder
	go func() {
		exit := Run(ctx, append(Patient(args), "-o", "json"), strings.NewReader(""), w, &stderr)
		_ = w.Close()
		code <- exit
	}()
	scanner := bufio.NewScanner(r)
	next = func(v any) {
		t.Helper()
		if !scanner.Scan() {
			t.Fatalf("%q ended: %s", args, stderr.String())
		}
		if err := json.Unmarshal(scanner.Bytes(), v); err != nil {
			t.Fatalf("%v in %s", err, scanner.Text())
		}
	}
	return next, func() int {
		cancel()
		_, _ = io.Copy(io.Discard, r)
		return <-code
	}
}

// SilentPipe returns the path of a pipe that a process has open and writes nothing to.
func SilentPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return path
}

// Contains fails unless text has all words.
func Contains(t *testing.T, text string, given ...string) {
	t.Helper()
	for _, w := range given {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in:\n%s", w, text)
		}
	}
}
