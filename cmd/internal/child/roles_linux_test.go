package child

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary acts as other processes when these variables are set.
const (
	roleVariable = "HOLDFAST_TEST_ROLE"
	overVariable = "HOLDFAST_TEST_OVER" // of the runner: its hold is over once this file exists
)

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		os.Exit(m.Run())
	case "listener":
		os.Exit(listener())
	case "leaver":
		os.Exit(leaver())
	case "short":
	case "runner":
		os.Exit(runner())
	case "shell":
		os.Exit(shell())
	default:
		panic(role)
	}
}

// environment returns that of another role.
func environment(role string, more ...string) []string {
	return append(append(os.Environ(), more...), roleVariable+"="+role)
}

// names are the signals that the listener reports.
var names = map[os.Signal]string{
	syscall.SIGHUP: "HUP", syscall.SIGINT: "INT", syscall.SIGQUIT: "QUIT", syscall.SIGTERM: "TERM",
	syscall.SIGUSR1: "USR1", syscall.SIGUSR2: "USR2", syscall.SIGWINCH: "WINCH", syscall.SIGCONT: "CONT",
	syscall.SIGALRM: "ALRM",
}

// listener is the program of most tests. It prints "ready" with its process and group, and every signal. It obeys the
// lines of its input, unless its argument is "deaf".
func listener() int {
	signals := make(chan os.Signal, 64)
	for s := range names {
		signal.Notify(signals, s)
	}
	lines := make(chan string)
	if !slices.Contains(os.Args, "deaf") {
		go func() {
			for in := bufio.NewScanner(os.Stdin); in.Scan(); {
				lines <- in.Text()
			}
		}()
	}
	fmt.Println("ready", os.Getpid(), syscall.Getpgrp())
	for {
		select {
		case s := <-signals:
			fmt.Println(names[s])
		case line := <-lines:
			command, argument, _ := strings.Cut(line, " ")
			switch command {
			case "exit":
				code, _ := strconv.Atoi(argument)
				return code
			case "fork":
				another := exec.Command(os.Args[0], "deaf")
				another.Stdout, another.Env = os.Stdout, environment("listener")
				fmt.Println(another.Start())
			case "orphan":
				leaver := exec.Command(os.Args[0])
				leaver.Env = environment("leaver")
				pid, err := leaver.Output()
				if err != nil {
					panic(err)
				}
				orphan, _ := strconv.Atoi(string(pid))
				for again := time.NewTicker(time.Millisecond); syscall.Kill(orphan, 0) == nil; {
					<-again.C
				}
				fmt.Println("reaped")
			default:
				fmt.Println("heard", line)
			}
		}
	}
}

// leaver starts a process and leaves it.
func leaver() int {
	short := exec.Command(os.Args[0])
	short.Env = environment("short")
	if err := short.Start(); err != nil {
		panic(err)
	}
	fmt.Print(short.Process.Pid)
	return 0
}

// runner is a process that runs its arguments with Run, and nothing else.
func runner() int {
	var f Family
	is, err := f.Run(context.Background(), Options{
		Command: os.Args[0], Args: os.Args[1:], Env: environment("listener"), Stdin: os.Stdin, Stdout: os.Stdout,
		Stderr: os.Stderr, Hold: fileHold{forever(), os.Getenv(overVariable)},
		Grace: 50 * time.Millisecond, Margin: 50 * time.Millisecond,
		Say: func(string) {},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return is.Code
}

// hold is a Hold that a test moves.
type hold struct {
	ctx context.Context //nolint:containedctx // as Hold has it
	end context.CancelCauseFunc

	mu    sync.Mutex
	until time.Time     // guarded by mu
	left  time.Duration // guarded by mu; until is so far ahead of the next call of SafeUntil, unless left is 0
}

func newHold(until time.Time) *hold {
	h := &hold{until: until}
	h.ctx, h.end = context.WithCancelCause(context.Background())
	return h
}

func (h *hold) Context() context.Context { return h.ctx }

func (h *hold) SafeUntil() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left > 0 {
		h.until, h.left = time.Now().Add(h.left), 0
	}
	if h.ctx.Err() != nil || !time.Now().Before(h.until) {
		return time.Time{}
	}
	return h.until
}

func (h *hold) renew(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = until
}

// lasts ends the hold this long after the next call of SafeUntil.
func (h *hold) lasts(left time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = left
}

// fileHold is a hold that is over once a file exists.
type fileHold struct {
	*hold

	over string
}

func (h fileHold) SafeUntil() time.Time {
	if _, err := os.Stat(h.over); err == nil {
		return time.Time{}
	}
	return h.hold.SafeUntil()
}

// talk is a test's end of another process's input and output.
type talk struct {
	t     *testing.T
	in    *os.File
	out   *os.File
	lines *bufio.Reader
	// stdin and stdout are the other process's ends.
	stdin, stdout *os.File
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	k := &talk{t: t}
	var err error
	if k.stdin, k.in, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	if k.out, k.stdout, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	k.lines = bufio.NewReader(k.out)
	t.Cleanup(func() { k.in.Close(); k.out.Close(); k.handedOver() })
	return k
}

// handedOver closes the other process's ends here.
func (k *talk) handedOver() { k.stdin.Close(); k.stdout.Close() }

func (k *talk) say(line string) {
	k.t.Helper()
	if _, err := fmt.Fprintln(k.in, line); err != nil {
		k.t.Fatal(err)
	}
}

// patience is how long a test waits for a line of another process.
const patience = 30 * time.Second

func (k *talk) hear() string {
	k.t.Helper()
	k.out.SetReadDeadline(time.Now().Add(patience))
	line, err := k.lines.ReadString('\n')
	if err != nil {
		k.t.Fatalf("%v after %q", err, line)
	}
	return strings.TrimSuffix(line, "\n")
}

func (k *talk) want(lines ...string) {
	k.t.Helper()
	for _, want := range lines {
		if got := k.hear(); got != want {
			k.t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// ready waits for a listener.
func (k *talk) ready() (pid, group int) {
	k.t.Helper()
	if _, err := fmt.Sscanf(k.hear(), "ready %d %d", &pid, &group); err != nil {
		k.t.Fatal(err)
	}
	return pid, group
}

// rest waits until every process that could print has ended, and returns the further lines.
func (k *talk) rest() []string {
	k.t.Helper()
	k.out.SetReadDeadline(time.Now().Add(patience))
	text, err := io.ReadAll(k.lines)
	if err != nil {
		k.t.Fatalf("got %q, %v; want nobody left", text, err)
	}
	return strings.Fields(string(text))
}

// silent waits until every process that could print has ended, and wants no further line.
func (k *talk) silent() {
	k.t.Helper()
	if lines := k.rest(); len(lines) > 0 {
		k.t.Fatalf("got %q; want nobody left", lines)
	}
}
