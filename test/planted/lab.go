package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// lab builds test binaries with a bug in them, and runs them. It changes nothing in the work tree: go build's overlay
// replaces the real files by patched copies. Safe for concurrent use.
type lab struct {
	// root is the module's directory, scratch a directory for built files.
	root, scratch string
	// limit bounds one run of one test.
	limit time.Duration
	// heard, when set, receives the output of a test that catches a bug.
	heard func(c *catcher, output string)
}

// Reasons why a run catches nothing.
var (
	errPassed   = errors.New("uncaught: the test passes")
	errOther    = errors.New("the test fails, and no line of its output matches its says line")
	errNoTest   = errors.New("no such test")
	errNotBuilt = errors.New("the patched package does not build")
)

// overlay applies a bug's patch to copies of the files. It returns the overlay file for go build.
func (l *lab) overlay(b *bug) (string, error) {
	dir, err := os.MkdirTemp(l.scratch, b.name+"-")
	if err != nil {
		return "", err
	}
	var replace struct{ Replace map[string]string }
	replace.Replace = make(map[string]string)
	for i := range b.changes {
		original := filepath.Join(l.root, filepath.FromSlash(b.changes[i].file))
		copied := filepath.Join(dir, fmt.Sprintf("%d_%s", i, filepath.Base(original)))
		if err = b.changes[i].copy(original, copied); err != nil {
			return "", fmt.Errorf("bugs/%s.patch does not apply: make it anew for the present code: %w", b.name, err)
		}
		replace.Replace[original] = copied
	}
	text, err := json.Marshal(replace)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}

// copy writes one file with the change to another file.
func (c *change) copy(from, to string) error {
	_, patched, err := c.read(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, []byte(patched), 0o600)
}

// read returns the text of a file without the change and with it.
func (c *change) read(file string) (before, after string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	after, err = c.apply(string(text))
	return string(text), after, err
}

// build returns the test binary of a bug's catcher, with the bug in it.
func (l *lab) build(ctx context.Context, b *bug) (string, error) {
	overlay, err := l.overlay(b)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(l.scratch, "build-")
	if err != nil {
		return "", err
	}
	testdata := filepath.Join(l.root, filepath.FromSlash(b.catcher.pkg), "testdata")
	if err := os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS(testdata)); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	binary := filepath.Join(dir, "test")
	// Nobody looks into these binaries, and make check has vetted the packages: this saves a quarter of a build or more.
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary, "-overlay", overlay,
		".")
	build.Dir = filepath.Join(l.root, filepath.FromSlash(b.catcher.pkg)) // it may be in a module of its own
	// Each compiler and linker lives for a second or two: it collects no garbage unless it takes much memory, which saves
	// a quarter of the processor time of a build.
	build.Env = append(os.Environ(), "GOGC=off", "GOMEMLIMIT=1GiB")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %w:\n%s", errNotBuilt, err, tail(string(output)))
	}
	return binary, nil
}

// try runs a catcher under one setting of its variable. It returns nil when the test fails with the expected message.
func (l *lab) try(ctx context.Context, binary string, c *catcher, setting string) error {
	output, err := l.run(ctx, binary, c, setting)
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(output, "no tests to run"):
		return errNoTest
	case err == nil:
		return errPassed
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.As(err, &exit):
		return err
	case !said(output, c.says):
		return fmt.Errorf("%w: %s:\n%s", errOther, c.says, tail(output))
	}
	if l.heard != nil {
		l.heard(c, output)
	}
	return nil
}

// run runs a test beside a copy of its package's testdata, so that a failing test leaves nothing in the work tree.
func (l *lab) run(ctx context.Context, binary string, c *catcher, setting string) (string, error) {
	// The test's own limit comes first: its message is more precise.
	ctx, cancel := context.WithTimeout(ctx, l.limit+10*time.Second)
	defer cancel()
	args := append([]string{"-test.run", c.run, "-test.timeout", l.limit.String()}, c.flags...)
	test := exec.CommandContext(ctx, binary, args...)
	test.Dir = filepath.Dir(binary)
	test.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(binary))
	if setting != "" {
		test.Env = append(test.Env, setting)
	}
	var output bytes.Buffer
	test.Stdout, test.Stderr = &output, &output
	test.WaitDelay = time.Second
	err := test.Run()
	return output.String(), err
}

// said reports whether a line of a failed test's output matches. After a panic only the panic's own line counts: what a
// test prints on its way to a nil pointer proves nothing.
func said(output string, says *regexp.Regexp) bool {
	panics := strings.Contains(output, "\npanic: ") || strings.HasPrefix(output, "panic: ")
	for line := range strings.Lines(output) {
		if (!panics || strings.HasPrefix(line, "panic: ")) && says.MatchString(strings.TrimRight(line, "\n")) {
			return true
		}
	}
	return false
}

// tail returns the last lines of an output, and before them what a test reported further up.
func tail(output string) string {
	const lines = 30
	all := strings.Split(strings.TrimRight(output, "\n"), "\n")
	cut := max(len(all)-lines, 0)
	kept := slices.DeleteFunc(slices.Clone(all[:cut]), func(line string) bool { return !report.MatchString(line) })
	return strings.Join(append(kept[:min(len(kept), lines)], all[cut:]...), "\n")
}

// report matches a line that a test printed with t.Error and its like.
var report = regexp.MustCompile(`^\s+\w+_test\.go:\d+: `)
