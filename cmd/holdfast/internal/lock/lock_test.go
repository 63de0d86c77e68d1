package lock

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/auth"
	"holdfast/client/recipes"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
	"holdfast/session"
	"holdfast/tree"
)

// shown returns the output of "lock show" for the lock, once it has the given number of contenders.
func shown(t *testing.T, contenders int) []contenderView {
	t.Helper()
	for again := time.NewTicker(10 * time.Millisecond); ; <-again.C {
		var all []contenderView
		if err := json.Unmarshal([]byte(clitest.Succeed(t, "lock", "show", "job", "-o", "json")), &all); err != nil {
			t.Fatal(err)
		}
		if len(all) == contenders {
			return all
		}
	}
}

func TestLockRunsAProgram(t *testing.T) {
	c := clitest.StartTree(t)
	t.Setenv(tokenVariable, "an older one")
	var last tree.Stamp
	for range 2 {
		before := time.Now()
		l := clitest.StartProgram(t, "lock", "env | grep ^HOLDFAST_; echo; cat >/dev/null; exit 7", "--timeout", "20s")
		is := map[string]string{}
		for line := " "; line != ""; {
			got, err := l.Out.ReadString('\n')
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
		l.End(7)
		if ok, err := c.Tree().CheckFence(t.Context(), is[lockVariable], token); err != nil || ok {
			t.Errorf("the lock is still held: %v, %v", ok, err)
		}
		if found, err := c.Get(t.Context(), id); err != nil || found.Certificate == nil {
			t.Errorf("got %+v, %v; want the session closed", found, err)
		}
	}
	for command, want := range map[string]int{"/": 126, "no-such-program-of-holdfast": 127} {
		if code, _, stderr := clitest.Execute(t, "", "lock", "job", "--", command); code != want ||
			!strings.Contains(stderr, "run \""+command+"\": ") {
			t.Errorf("%s: exit code %d, %s", command, code, stderr)
		}
	}
}

func TestLocksAreShownAndBroken(t *testing.T) {
	clitest.StartTree(t)
	first := clitest.StartProgram(t, "lock", "echo runs; exec cat")
	first.Expect("runs")
	second := clitest.StartProgram(t, "lock", "echo runs; cat")
	all := shown(t, 2)
	if all[0].State != "holds" || all[1].State != "waits" || all[0].As != "lock" ||
		!strings.HasSuffix(all[0].Holder, fmt.Sprintf(":%d", first.Cmd.Process.Pid)) {
		t.Errorf("got %+v", all)
	}
	if got := clitest.Succeed(t, "lock", "show", "/locks/job"); !strings.Contains(got, all[1].Token) {
		t.Errorf("got %s", got)
	}
	for args, want := range map[string]bool{
		"lock ls": true, "lock ls jo": true, "lock ls /locks/job": true, "lock ls /": true, "lock ls job/": false,
		"lock ls x": false, "lock ls /lock": true,
	} {
		if got := clitest.Succeed(t, strings.Fields(args)...); strings.Contains(got, all[0].Token) != want ||
			want && !strings.HasSuffix(got, " 1\n") {
			t.Errorf("%s: got %s", args, got)
		}
	}
	if code, _, stderr := clitest.Execute(t, "", "lock", "ls", "/", "--limit", "1"); code != cli.ExitDone ||
		!strings.Contains(stderr, "incomplete") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	for _, tt := range []struct {
		answer, says string
		code         int
	}{{"no\n", "not confirmed", cli.ExitFailed}, {"", "pass --yes", cli.ExitUsage}} {
		code, _, stderr := clitest.Execute(t, tt.answer, "lock", "break", "job")
		if code != tt.code || !strings.Contains(stderr, tt.says) || !strings.Contains(stderr, all[0].Token) {
			t.Errorf("%q: exit code %d, %s", tt.answer, code, stderr)
		}
	}
	code, stdout, stderr := clitest.Execute(t, "yes\n", "lock", "break", "job")
	if want := "broken: " + all[0].Holder + ", token " + all[0].Token + "\n"; code != cli.ExitDone || stdout != want {
		t.Errorf("exit code %d, %s, %s", code, stdout, stderr)
	}
	if said := first.Wait(128 + 9); !strings.Contains(said, "removed by another client: killed sh") {
		t.Errorf("got %s", said)
	}
	second.Expect("runs")
	if now := shown(t, 1); now[0].Token != all[1].Token || now[0].State != "holds" {
		t.Errorf("got %+v", now)
	}
	second.End(0)
	if code, _, stderr := clitest.Execute(t, "", "lock", "break", "job", "--yes"); code != cli.ExitFailed ||
		!strings.Contains(stderr, "the lock is not held") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if code, _, stderr := clitest.Execute(t, "", "lock", "break", "never", "--yes"); code != cli.ExitFailed ||
		!strings.Contains(stderr, "the lock is not held") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	clitest.Succeed(t, "lock", "show", "never")
}

// For a contender whose entry the caller may not read, the state is open, and it is not broken.
func TestContendersThatAreHidden(t *testing.T) {
	line, _ := recipes.Contenders("/locks/job", []tree.Child{
		{Name: "lock-0000000000", Hidden: true},
		{Name: "lock-0000000001", Hidden: true},
	})
	for i, want := range []string{"holds or lock-delay", "waits"} {
		v := viewContender(&line[i])
		if v.State != want || v.Holder != "(hidden)" || v.Token != "" || v.Owner != nil || !v.Since.IsZero() {
			t.Errorf("contender %d is shown as %+v, want that it %s", i, v, want)
		}
		err := removeContender(t.Context(), nil, nil, &v)
		if err == nil || !strings.Contains(err.Error(), v.Path+": no permission to read the entry") {
			t.Errorf("contender %d is broken with %v", i, err)
		}
	}
}

// A list of a place with more entries than the commands read is incomplete, and the commands report that.
func TestLocksAmongTooMany(t *testing.T) {
	// The tree of the other tests stays small: clearing it deletes each entry of the root with one transaction.
	_, tr := clitest.OpenTree(t, clitest.StartNewTree(t))
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
	for _, args := range []string{"lock ls /many/ --limit 1", "lock show /many", "lock break /many --yes"} {
		if _, _, stderr := clitest.Execute(t, "", strings.Fields(args)...); !strings.Contains(stderr,
			"/many has more than 10000 entries: some are not shown") {
			t.Errorf("%s: %s", args, stderr)
		}
	}
}

func TestLockWhoWaitsHowLong(t *testing.T) {
	clitest.StartTree(t)
	first := clitest.StartProgram(t, "lock", "echo runs; cat", "--shared")
	first.Expect("runs")
	clitest.StartProgram(t, "lock", "exit 0", "--shared", "--wait", "0").End(0)
	for wait, says := range map[string]string{"0": "held by another caller", "50ms": "not released within --wait 50ms"} {
		said := clitest.StartProgram(t, "lock", "exit 0", "--wait", wait).End(cli.ExitFailed)
		if !strings.Contains(said, says) || !strings.Contains(said, "lock show") {
			t.Errorf("--wait %s: %s", wait, said)
		}
	}
	patient := clitest.StartProgram(t, "lock", "echo runs")
	if all := shown(t, 2); all[0].As != "read" || all[1].As != "lock" || all[1].State != "waits" {
		t.Errorf("got %+v", all)
	}
	first.End(0)
	patient.Expect("runs")
	patient.End(0)
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if code := clitest.Run(interrupted, []string{"lock", "job", "--", "true"}, nil, io.Discard,
		io.Discard); code != cli.ExitFailed {
		t.Errorf("exit code %d of an interrupted command", code)
	}
}

// What happens to a program whose lock is lost.
func TestOnLost(t *testing.T) {
	clitest.StartTree(t)
	const script = "trap 'echo ended; exit 0' TERM; echo runs; read line; echo went on"
	l := clitest.StartProgram(t, "lock", script, "--on-lost", "term")
	l.Expect("runs")
	clitest.Succeed(t, "lock", "break", "job", "--yes")
	l.Expect("ended")
	if said := l.End(cli.ExitFailed); !strings.Contains(said, "was lost before the program ended") {
		t.Errorf("got %s", said)
	}
	l = clitest.StartProgram(t, "lock", script, "--on-lost", "continue")
	l.Expect("runs")
	clitest.Succeed(t, "lock", "break", "job", "--yes")
	l.ExpectMessage("runs on without it") // before the program ends, or its unlock reports the loss
	fmt.Fprintln(l.In)
	l.Expect("went on")
	l.End(0)
}

// The lock is held until the program has ended, although the command got its signal before.
func TestLockOfAProgramThatEndsSlowly(t *testing.T) {
	clitest.StartTree(t)
	l := clitest.StartProgram(t, "lock", "trap 'echo ends; read line; exit 4' TERM; echo runs; while :; do sleep 1; done")
	l.Expect("runs")
	if err := l.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	l.Expect("ends")
	said := clitest.StartProgram(t, "lock", "exit 0", "--wait", "0").End(cli.ExitFailed)
	if !strings.Contains(said, "held by another caller") {
		t.Errorf("got %s", said)
	}
	fmt.Fprintln(l.In)
	l.End(4)
	clitest.StartProgram(t, "lock", "exit 0", "--wait", "0").End(0)
}

// The program has the secrets of the command's environment, and none of its files.
func TestSecretsOfAProgram(t *testing.T) {
	clitest.StartTree(t)
	const script = "echo token $" + cli.AuthTokenVariable + ", digest $" + cli.DigestVariable
	secret := auth.NewToken().String()
	t.Setenv(cli.DigestVariable, "me:secret")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	l := clitest.StartProgram(t, "lock", script, "--token-without-tls", "--auth-token-file", file)
	l.Expect("token , digest me:secret")
	l.End(0)
	t.Setenv(cli.AuthTokenVariable, secret)
	l = clitest.StartProgram(t, "lock", script, "--token-without-tls")
	l.Expect("token " + secret + ", digest me:secret")
	l.End(0)
	l = clitest.StartProgram(t, "lock",
		"exec env -u "+cli.AuthTokenVariable+" -u "+cli.DigestVariable+" sh -c '"+script+"'", "--token-without-tls")
	l.Expect("token , digest")
	l.End(0)
}

// A killed command takes its program with it, and leaves its lock to the lock-delay.
func TestLockOfAKilledCommand(t *testing.T) {
	clitest.StartTree(t)
	l := clitest.StartProgram(t, "lock", "exec cat", "--timeout", "6s", "--lock-delay", "1m")
	fmt.Fprintln(l.In, "back")
	l.Expect("back")
	if err := l.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	l.End(-1)
	again := time.NewTicker(50 * time.Millisecond)
	for all := shown(t, 1); all[0].State != "lock-delay"; all = shown(t, 1) {
		<-again.C
	}
	clitest.StartProgram(t, "lock", "exit 0", "--wait", "0").End(cli.ExitFailed)
	clitest.Succeed(t, "lock", "break", "job", "--yes")
	clitest.StartProgram(t, "lock", "exit 0", "--wait", "0").End(0)
}

func TestLockUsage(t *testing.T) {
	clitest.StartTree(t)
	for args, says := range map[string]string{
		"lock":                                "NAME -- COMMAND",
		"lock job":                            "NAME -- COMMAND",
		"lock job true":                       "NAME -- COMMAND",
		"lock job --":                         "NAME -- COMMAND",
		"lock job other -- true":              "NAME -- COMMAND",
		"lock job sh -c true":                 `come after "--"`,
		"lock ls --none":                      "unknown flag: --none\n",
		"lock / -- true":                      "below /",
		"lock a//b -- true":                   "a//b",
		"lock job --wait -1s -- true":         "--wait",
		"lock job --timeout 0s -- true":       "--timeout",
		"lock job --grace-period -1s -- true": "--grace-period",
		"lock job --grace-period 9s -- true":  "at most 3.133333333s with a session's timeout of 10s",
		"lock job --lock-delay 61s -- true":   "at most 1m",
		"lock job --lock-delay 1ns -- true":   "whole milliseconds",
		"lock job --on-lost stop -- true":     "want kill, term or continue",
		"lock show":                           "one NAME",
		"lock show /":                         "below /",
		"lock ls a b":                         "one PREFIX",
		"lock ls --limit 0":                   "1 to 100000",
		"lock break":                          "one NAME",
	} {
		if code, _, stderr := clitest.Execute(t, "", strings.Fields(args)...); code != cli.ExitUsage ||
			!strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
	clitest.Succeed(t, "lock", "job", "--grace-period", "3s", "--", "true")
	clitest.Succeed(t, "lock", "job", "--grace-period", "0s", "--", "true")
	if code, _, stderr := clitest.Execute(t, "", "lock", "job", "--endpoints", fakenode.ClosedPort(t), "--call-timeout",
		"200ms", "--", "true"); code != cli.ExitUnreachable {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
