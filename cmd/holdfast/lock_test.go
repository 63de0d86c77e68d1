package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/auth"
	"holdfast/client/recipes"
	"holdfast/session"
	"holdfast/tree"
)

// mainVariable has the test binary play the program itself.
const mainVariable = "HOLDFAST_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// locking is a process that runs "holdfast lock", or another command with a program. Signals, orphans and the terminal
// belong to a process: a second program needs a second one.
type locking struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr complaints
}

// startLocking runs a shell script under a lock.
func startLocking(t *testing.T, script string, flags ...string) *locking {
	t.Helper()
	return startUnder(t, "lock", script, flags...)
}

// startUnder runs a shell script with a command that runs programs.
func startUnder(t *testing.T, command, script string, flags ...string) *locking {
	t.Helper()
	return startWith(t, func(*exec.Cmd) {}, command, script, flags...)
}

// startWith is startUnder for a process that change changes before it is started.
func startWith(t *testing.T, change func(*exec.Cmd), command, script string, flags ...string) *locking {
	t.Helper()
	l := &locking{t: t}
	args := append([]string{command, "--timeout", "1m", "--call-timeout", "1m"}, flags...) // for a busy machine
	args = append(args, "job", "--", "sh", "-c", script)
	l.cmd = exec.Command(os.Args[0], args...)
	l.cmd.Env, l.cmd.Stderr = append(os.Environ(), mainVariable+"=1"), &l.stderr
	var err error
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.out = bufio.NewReader(out)
	change(l.cmd)
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.in.Close(); l.cmd.Process.Kill(); l.cmd.Wait() })
	return l
}

func (l *locking) hears(want string) {
	l.t.Helper()
	if got, err := l.out.ReadString('\n'); err != nil || strings.TrimSpace(got) != want {
		l.cmd.Wait() // it is the end of its output
		l.t.Fatalf("got %q, %v, want %q; %s", got, err, want, l.stderr.String())
	}
}

// ends closes the input, and waits for the end.
func (l *locking) ends(code int) string {
	l.t.Helper()
	l.in.Close()
	return l.ended(code)
}

// ended waits for the end.
func (l *locking) ended(code int) string {
	l.t.Helper()
	if _, err := io.ReadAll(l.out); err != nil { // its program has ended, and nothing is left of it
		l.t.Fatal(err)
	}
	l.cmd.Wait()
	if got := l.cmd.ProcessState.ExitCode(); got != code {
		l.t.Fatalf("exit code %d, want %d; %s", got, code, l.stderr.String())
	}
	return l.stderr.String()
}

// shown returns what "lock show" shows of the lock, once it has so many contenders.
func shown(t *testing.T, contenders int) []contenderView {
	t.Helper()
	for again := time.NewTicker(10 * time.Millisecond); ; <-again.C {
		var all []contenderView
		if err := json.Unmarshal([]byte(succeed(t, "lock", "show", "job", "-o", "json")), &all); err != nil {
			t.Fatal(err)
		}
		if len(all) == contenders {
			return all
		}
	}
}

func TestLockRunsAProgram(t *testing.T) {
	c := startTree(t)
	t.Setenv(tokenVariable, "an older one")
	var last tree.Stamp
	for range 2 {
		before := time.Now()
		l := startLocking(t, "env | grep ^HOLDFAST_; echo; cat >/dev/null; exit 7", "--timeout", "20s")
		is := map[string]string{}
		for line := " "; line != ""; {
			got, err := l.out.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			line = strings.TrimSpace(got)
			name, value, _ := strings.Cut(line, "=")
			is[name] = value
		}
		token, err := tree.ParseStamp(is[tokenVariable])
		if err != nil || token <= last {
			t.Errorf("token %s, %v; want more than %v", is[tokenVariable], err, last)
		}
		last = token
		if ok, failed := c.Tree().CheckFence(t.Context(), is[lockVariable], token); failed != nil || !ok {
			t.Errorf("the fence of %s at %v: %v, %v", is[lockVariable], token, ok, failed)
		}
		safe, err := time.Parse(time.RFC3339, is[safeUntilVariable])
		if err != nil || !safe.After(before) || safe.After(time.Now().Add(20*time.Second)) {
			t.Errorf("safe until %s, %v", is[safeUntilVariable], err)
		}
		id, err := session.ParseID(is[sessionVariable])
		if err != nil {
			t.Fatal(err)
		}
		if found, err := c.Get(t.Context(), id); err != nil || found.Session.Timeout != 20*time.Second {
			t.Errorf("got %+v, %v; want a session of 20 s", found, err)
		}
		l.ends(7)
		if ok, err := c.Tree().CheckFence(t.Context(), is[lockVariable], token); err != nil || ok {
			t.Errorf("the lock is still held: %v, %v", ok, err)
		}
		if found, err := c.Get(t.Context(), id); err != nil || found.Certificate == nil {
			t.Errorf("got %+v, %v; want the session closed", found, err)
		}
	}
	for command, want := range map[string]int{"/": 126, "no-such-program-of-holdfast": 127} {
		if code, _, stderr := execute(t, "", "lock", "job", "--", command); code != want ||
			!strings.Contains(stderr, "run \""+command+"\": ") {
			t.Errorf("%s: exit code %d, %s", command, code, stderr)
		}
	}
}

func TestLocksAreShownAndBroken(t *testing.T) {
	startTree(t)
	first := startLocking(t, "echo runs; exec cat")
	first.hears("runs")
	second := startLocking(t, "echo runs; cat")
	all := shown(t, 2)
	if all[0].State != "holds" || all[1].State != "waits" || all[0].As != "lock" ||
		!strings.HasSuffix(all[0].Holder, fmt.Sprintf(":%d", first.cmd.Process.Pid)) {
		t.Errorf("got %+v", all)
	}
	if got := succeed(t, "lock", "show", "/locks/job"); !strings.Contains(got, all[1].Token) {
		t.Errorf("got %s", got)
	}
	for args, want := range map[string]bool{
		"lock ls": true, "lock ls jo": true, "lock ls /locks/job": true, "lock ls /": true, "lock ls job/": false,
		"lock ls x": false, "lock ls /lock": true,
	} {
		if got := succeed(t, strings.Fields(args)...); strings.Contains(got, all[0].Token) != want ||
			want && !strings.HasSuffix(got, " 1\n") {
			t.Errorf("%s: got %s", args, got)
		}
	}
	if code, _, stderr := execute(t, "", "lock", "ls", "/", "--most", "1"); code != exitDone ||
		!strings.Contains(stderr, "not complete") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	for _, tt := range []struct {
		answer, says string
		code         int
	}{{"no\n", "not confirmed", exitFailed}, {"", "give --yes", exitUsage}} {
		code, _, stderr := execute(t, tt.answer, "lock", "break", "job")
		if code != tt.code || !strings.Contains(stderr, tt.says) || !strings.Contains(stderr, all[0].Token) {
			t.Errorf("%q: exit code %d, %s", tt.answer, code, stderr)
		}
	}
	code, stdout, stderr := execute(t, "yes\n", "lock", "break", "job")
	if want := "broken: " + all[0].Holder + ", token " + all[0].Token + "\n"; code != exitDone || stdout != want {
		t.Errorf("exit code %d, %s, %s", code, stdout, stderr)
	}
	if said := first.ended(128 + 9); !strings.Contains(said, "removed by somebody else: killed sh") {
		t.Errorf("got %s", said)
	}
	second.hears("runs")
	if now := shown(t, 1); now[0].Token != all[1].Token || now[0].State != "holds" {
		t.Errorf("got %+v", now)
	}
	second.ends(0)
	if code, _, stderr := execute(t, "", "lock", "break", "job", "--yes"); code != exitFailed ||
		!strings.Contains(stderr, "nobody holds it") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if code, _, stderr := execute(t, "", "lock", "break", "never", "--yes"); code != exitFailed ||
		!strings.Contains(stderr, "nobody holds it") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	succeed(t, "lock", "show", "never")
}

// Nothing is claimed of a contender whose entry the caller may not read, and it is not broken.
func TestContendersThatAreHidden(t *testing.T) {
	line, _ := recipes.InLine("/locks/job", []tree.Child{
		{Name: "lock-0000000000", Hidden: true},
		{Name: "lock-0000000001", Hidden: true},
	})
	for i, want := range []string{"holds or lingers", "waits"} {
		v := viewContender(&line[i])
		if v.State != want || v.Holder != "(hidden)" || v.Token != "" || v.Owner != nil || !v.Since.IsZero() {
			t.Errorf("contender %d is shown as %+v, want that it %s", i, v, want)
		}
		err := holds{}.removeContender(t.Context(), nil, &v)
		if err == nil || !strings.Contains(err.Error(), v.Path+": you may not read the entry") {
			t.Errorf("contender %d is broken with %v", i, err)
		}
	}
}

// A place with more entries than the commands read is no complete list, and they say so.
func TestLocksAmongTooMany(t *testing.T) {
	_, tr := heldTree(t, startTree(t))
	for batch := range 3 {
		x := tree.Transaction{Then: []tree.Op{tree.Create{
			Path: fmt.Sprintf("/many/%d", batch), Kind: tree.Persistent, Parents: true,
		}}}
		for i := range maxContenders / 3 {
			x.Then = append(x.Then, tree.Create{Path: fmt.Sprintf("/many/%d-%d", batch, i), Kind: tree.Persistent})
		}
		if _, err := tr.Transact(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range []string{"lock ls /many/ --most 1", "lock show /many", "lock break /many --yes"} {
		if _, _, stderr := execute(t, "", strings.Fields(args)...); !strings.Contains(stderr,
			"/many has more than 10000 entries: some are not shown") {
			t.Errorf("%s: %s", args, stderr)
		}
	}
}

func TestLockWhoWaitsHowLong(t *testing.T) {
	startTree(t)
	first := startLocking(t, "echo runs; cat", "--shared")
	first.hears("runs")
	startLocking(t, "exit 0", "--shared", "--wait", "0").ends(0)
	for wait, says := range map[string]string{"0": "held by somebody else", "50ms": "not free within --wait 50ms"} {
		said := startLocking(t, "exit 0", "--wait", wait).ends(exitFailed)
		if !strings.Contains(said, says) || !strings.Contains(said, "lock show") {
			t.Errorf("--wait %s: %s", wait, said)
		}
	}
	patient := startLocking(t, "echo runs")
	if all := shown(t, 2); all[0].As != "read" || all[1].As != "lock" || all[1].State != "waits" {
		t.Errorf("got %+v", all)
	}
	first.ends(0)
	patient.hears("runs")
	patient.ends(0)
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if code := run(interrupted, []string{"lock", "job", "--", "true"}, nil, io.Discard, io.Discard); code != exitFailed {
		t.Errorf("exit code %d of an interrupted command", code)
	}
}

// What becomes of a program whose lock is taken away.
func TestOnLost(t *testing.T) {
	startTree(t)
	const script = "trap 'echo ended; exit 0' TERM; echo runs; read line; echo went on"
	l := startLocking(t, script, "--on-lost", "term")
	l.hears("runs")
	succeed(t, "lock", "break", "job", "--yes")
	l.hears("ended")
	if said := l.ends(exitFailed); !strings.Contains(said, "was lost before the program ended") {
		t.Errorf("got %s", said)
	}
	l = startLocking(t, script, "--on-lost", "continue")
	l.hears("runs")
	succeed(t, "lock", "break", "job", "--yes")
	l.complains("runs on without it") // before the program ends, or else the command hears of the loss from its unlock
	fmt.Fprintln(l.in)
	l.hears("went on")
	l.ends(0)
}

// The lock is held until the program has ended, although the command was told to end before.
func TestLockOfAProgramThatEndsSlowly(t *testing.T) {
	startTree(t)
	l := startLocking(t, "trap 'echo ends; read line; exit 4' TERM; echo runs; while :; do sleep 1; done")
	l.hears("runs")
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	l.hears("ends")
	said := startLocking(t, "exit 0", "--wait", "0").ends(exitFailed)
	if !strings.Contains(said, "held by somebody else") {
		t.Errorf("got %s", said)
	}
	fmt.Fprintln(l.in)
	l.ends(4)
	startLocking(t, "exit 0", "--wait", "0").ends(0)
}

// The program has the secrets of the command's environment, and none of its files.
func TestSecretsOfAProgram(t *testing.T) {
	startTree(t)
	const script = "echo token $" + authTokenVariable + ", digest $" + digestVariable
	secret := auth.NewToken().String()
	t.Setenv(digestVariable, "me:secret")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	l := startLocking(t, script, "--plain-token", "--auth-token-file", file)
	l.hears("token , digest me:secret")
	l.ends(0)
	t.Setenv(authTokenVariable, secret)
	l = startLocking(t, script, "--plain-token")
	l.hears("token " + secret + ", digest me:secret")
	l.ends(0)
	l = startLocking(t, "exec env -u "+authTokenVariable+" -u "+digestVariable+" sh -c '"+script+"'", "--plain-token")
	l.hears("token , digest")
	l.ends(0)
}

// A command that is killed takes its program with it, and leaves its lock to the lock-delay.
func TestLockOfAKilledCommand(t *testing.T) {
	startTree(t)
	l := startLocking(t, "exec cat", "--timeout", "6s", "--linger", "1m")
	fmt.Fprintln(l.in, "back")
	l.hears("back")
	if err := l.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	l.ends(-1)
	again := time.NewTicker(50 * time.Millisecond)
	for all := shown(t, 1); all[0].State != "lingers"; all = shown(t, 1) {
		<-again.C
	}
	startLocking(t, "exit 0", "--wait", "0").ends(exitFailed)
	succeed(t, "lock", "break", "job", "--yes")
	startLocking(t, "exit 0", "--wait", "0").ends(0)
}

func TestLockUsage(t *testing.T) {
	startTree(t)
	for args, says := range map[string]string{
		"lock":                            "NAME -- COMMAND",
		"lock job":                        "NAME -- COMMAND",
		"lock job true":                   "NAME -- COMMAND",
		"lock job --":                     "NAME -- COMMAND",
		"lock job other -- true":          "NAME -- COMMAND",
		"lock job sh -c true":             `come after "--"`,
		"lock ls --none":                  "unknown flag: --none\n",
		"lock / -- true":                  "below /",
		"lock a//b -- true":               "a//b",
		"lock job --wait -1s -- true":     "--wait",
		"lock job --timeout 0s -- true":   "--timeout",
		"lock job --grace -1s -- true":    "--grace",
		"lock job --grace 9s -- true":     "at most 3.133333333s with a session's timeout of 10s",
		"lock job --linger 61s -- true":   "at most 1m",
		"lock job --linger 1ns -- true":   "whole milliseconds",
		"lock job --on-lost stop -- true": "want kill, term or continue",
		"lock show":                       "one NAME",
		"lock show /":                     "below /",
		"lock ls a b":                     "one PREFIX",
		"lock ls --most 0":                "1 to 100000",
		"lock break":                      "one NAME",
	} {
		if code, _, stderr := execute(t, "", strings.Fields(args)...); code != exitUsage ||
			!strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
	succeed(t, "lock", "job", "--grace", "3s", "--", "true")
	succeed(t, "lock", "job", "--grace", "0s", "--", "true")
	if code, _, stderr := execute(t, "", "lock", "job", "--endpoints", closedPort(t), "--call-timeout", "200ms", "--",
		"true"); code != exitUnreachable {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
