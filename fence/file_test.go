//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fence

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fileIn returns a file in a new directory, and a function that requires its content and token.
func fileIn(t *testing.T) (f *File, want func(content string, newest Token)) {
	t.Helper()
	f = NewFile(filepath.Join(t.TempDir(), "file"), 0o640)
	return f, func(content string, newest Token) {
		t.Helper()
		got, err := os.ReadFile(f.path)
		kept, keptErr := f.Newest()
		if string(got) != content || kept != newest || keptErr != nil || err != nil && content != "" {
			t.Errorf("the file has %q of %v (%v, %v), want %q of %v", got, kept, err, keptErr, content, newest)
		}
	}
}

func TestFile(t *testing.T) {
	f, want := fileIn(t)
	want("", 0)
	if err := os.WriteFile(f.path, []byte("of nobody"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, leftover := range []string{".new", ".fence.new"} { // and a link must not be followed
		if err := os.Symlink(f.path, f.path+leftover); err != nil {
			t.Fatal(err)
		}
	}
	failed := errors.New("failed")
	for _, tt := range []struct {
		token   Token
		content string
		err     error
		left    string
		newest  Token
	}{
		{1024<<16 | 3, "one", nil, "one", 1024<<16 | 3},
		{1024<<16 | 3, "two", nil, "two", 1024<<16 | 3},
		{1030<<16 | 1, "x", failed, "two", 1024<<16 | 3},
		{1030<<16 | 1, "", nil, "", 1030<<16 | 1},
		{1030<<16 | 1, "three", nil, "three", 1030<<16 | 1},
		{
			1024<<16 | 3, "x", &StaleError{Resource: f.path, Token: 1024<<16 | 3, Newest: 1030<<16 | 1}, "three",
			1030<<16 | 1,
		},
		{0, "x", Token(0).check(), "three", 1030<<16 | 1},
		{Max, "four", nil, "four", Max},
	} {
		before, err := os.ReadFile(f.path)
		if err != nil {
			t.Fatal(err)
		}
		err = f.Update(t.Context(), tt.token, func() ([]byte, error) {
			if old, readErr := os.ReadFile(f.path); readErr != nil || string(old) != string(before) {
				t.Errorf("change finds %q, %v", old, readErr)
			}
			if errors.Is(tt.err, failed) {
				return nil, failed
			}
			return []byte(tt.content), nil
		})
		if fmt.Sprint(err) != fmt.Sprint(tt.err) {
			t.Errorf("%v: %v, want %v", tt.token, err, tt.err)
		}
		want(tt.left, tt.newest)
	}
	if _, err := os.Lstat(f.path + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s.new is left: %v", f.path, err)
	}
	for _, path := range []string{f.path, f.path + ".fence", f.path + ".lock"} {
		if is, err := os.Lstat(path); err != nil || is.Mode()&^0o022 != 0o640 {
			t.Errorf("%s: %v, %v", path, is.Mode(), err)
		}
	}
}

// TestADamagedFence: a file whose newest token is unknown refuses all writes.
func TestADamagedFence(t *testing.T) {
	f, want := fileIn(t)
	for _, text := range []string{"", "\n", "1024.3", "1024\n", "0.0\n", "1024.3\n\n"} {
		if err := os.WriteFile(f.path+".fence", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := f.Write(t.Context(), Max, nil)
		if damaged, ok := errors.AsType[*DamagedError](err); !ok || damaged.Path != f.path+".fence" || damaged.Err == nil {
			t.Errorf("fence %q: %v", text, err)
		}
	}
	if err := os.Remove(f.path + ".fence"); err != nil {
		t.Fatal(err)
	}
	want("", 0)
	if err := f.Write(t.Context(), 1, []byte("reset")); err != nil {
		t.Fatal(err)
	}
	want("reset", 1)
}

// TestAFileThatIsLocked: a write waits for the previous write, up to the end of its context.
func TestAFileThatIsLocked(t *testing.T) {
	f, want := fileIn(t)
	writing, release := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		if err := f.Update(t.Context(), 1, func() ([]byte, error) {
			close(writing)
			<-release
			return []byte("one"), nil
		}); err != nil {
			t.Error(err)
		}
	})
	<-writing
	gone := errors.New("gone")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, gone)
	defer cancel()
	if err := f.Write(ctx, 2, nil); !errors.Is(err, gone) {
		t.Errorf("a write beside another: %v", err)
	}
	want("", 0)
	all.Go(func() {
		if err := f.Write(t.Context(), 3, []byte("three")); err != nil {
			t.Error(err)
		}
	})
	close(release)
	all.Wait()
	want("three", 3)
}

// TestAFileThatCannotBeWritten: errors of the file system reach the caller.
func TestAFileThatCannotBeWritten(t *testing.T) {
	f, _ := fileIn(t)
	f.path = filepath.Join(f.path, "nowhere")
	if err := f.Write(t.Context(), 1, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in no directory: %v", err)
	}
	for _, name := range []string{".lock", ".fence", ".new/x", "/x"} {
		f, _ := fileIn(t)
		if err := os.MkdirAll(f.path+name, 0o700); err != nil {
			t.Fatal(err)
		}
		err := f.Write(t.Context(), 1, nil)
		if _, of := errors.AsType[*fs.PathError](err); !of && !is[*os.LinkError](err) {
			t.Errorf("with a directory at file%s: %v", name, err)
		}
	}
}

// Child is the environment variable of a child process that writes to a file instead of running tests: the path, the
// token, the step before which it stands still, and the number of writes.
const Child = "HOLDFAST_FENCE_CHILD"

// RunChild is the work of a child process.
func RunChild(of string) error {
	args := strings.Split(of, "|")
	token, err := Parse(args[1])
	at, atErr := strconv.Atoi(args[2])
	writes, writesErr := strconv.Atoi(args[3])
	if err = errors.Join(err, atErr, writesErr); err != nil {
		return err
	}
	f := NewFile(args[0], 0o600)
	f.disk = &standing{at: at}
	for range writes {
		err := f.Update(context.Background(), token, func() ([]byte, error) {
			old, err := os.ReadFile(f.path)
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return fmt.Appendf(old, "%v\n", token), err
		})
		if _, stale := errors.AsType[*StaleError](err); stale {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// standing is a disk on which a process stands still before a step, counted from 1, for good.
type standing struct {
	realDisk

	at, steps int
}

func (s *standing) step() error {
	if s.steps++; s.steps != s.at {
		return nil
	}
	fmt.Println("stands")
	_, err := io.Copy(io.Discard, os.Stdin) // until it is killed
	return errors.Join(errors.New("the parent process has ended"), err)
}

func (s *standing) write(path string, content []byte, perm fs.FileMode) error {
	if err := s.step(); err != nil {
		return err
	}
	return s.realDisk.write(path, content, perm)
}

func (s *standing) rename(from, to string) error {
	if err := s.step(); err != nil {
		return err
	}
	return s.realDisk.rename(from, to)
}

func (s *standing) sync(dir string) error {
	if err := s.step(); err != nil {
		return err
	}
	return s.realDisk.sync(dir)
}

// start starts a child process.
func start(t *testing.T, path string, token Token, at, writes int) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%v|%d|%d", Child, path, token, at, writes))
	c.Stderr = os.Stderr
	_, err := c.StdinPipe()
	out, outErr := c.StdoutPipe()
	if err = errors.Join(err, outErr, c.Start()); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(out)
}

// TestAWriterThatIsKilled kills a process that writes, before each step of its write. While it is paused, no other
// process writes. Then the next holder writes at once, and the killed process's token is refused.
func TestAWriterThatIsKilled(t *testing.T) {
	for at := 1; at <= allSteps; at++ {
		f, want := fileIn(t)
		if err := f.Write(t.Context(), 1, []byte("0.1\n")); err != nil {
			t.Fatal(err)
		}
		c, out := start(t, f.path, 5, at, 1)
		if said, err := out.ReadString('\n'); said != "stands\n" {
			t.Fatalf("before step %d: %q, %v", at, said, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := f.Write(ctx, 9, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a write beside a process that stands still before step %d: %v", at, err)
		}
		cancel()
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err == nil {
			t.Error("the process was not killed")
		}
		content, newest := "0.1\n", Token(1)
		if at > 2 { // the token is noted in the second step
			newest = 5
		}
		if at > 5 { // the content has its name from the fifth on
			content = "0.1\n0.5\n"
		}
		want(content, newest)
		if err := f.Write(t.Context(), 9, []byte("nine")); err != nil {
			t.Errorf("killed before step %d: %v", at, err)
		}
		if err := f.Write(t.Context(), 5, nil); !is[*StaleError](err) {
			t.Errorf("the killed process's token: %v", err)
		}
		want("nine", 9)
	}
}

// TestProcessesWriteOneFile: processes add lines to a file. No line is lost, and the tokens of the lines never fall.
func TestProcessesWriteOneFile(t *testing.T) {
	const processes, writes = 4, 25
	f, _ := fileIn(t)
	var all []*exec.Cmd
	for i := range processes {
		c, _ := start(t, f.path, Token(i/2+1), 0, writes)
		all = append(all, c)
	}
	for _, c := range all {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	content, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	var count [3]int
	last := Token(0)
	for line := range strings.Lines(string(content)) {
		token, err := Parse(strings.TrimSuffix(line, "\n"))
		if err != nil || token < last {
			t.Fatalf("%v after %v, %v", token, last, err)
		}
		last = token
		count[token]++
	}
	if count[2] != 2*writes || count[1] > 2*writes {
		t.Errorf("%d lines of token 1, %d of token 2, want %d", count[1], count[2], 2*writes)
	}
}
