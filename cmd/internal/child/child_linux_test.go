package child

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/skip"
)

// outcome is what Run returned.
type outcome struct {
	Ended
	err error
	at  time.Time
}

// run is a Run in this process.
type run struct {
	*talk
	ended chan outcome
	said  []string
}

// runHere runs a listener in this process. Zero fields of o get values.
func runHere(t *testing.T, o Options, args ...string) *run {
	t.Helper()
	r := &run{talk: newTalk(t), ended: make(chan outcome, 1)}
	o.Command, o.Args, o.Env = os.Args[0], args, environment("listener")
	o.Stdin, o.Stdout, o.Stderr = r.stdin, r.stdout, os.Stderr
	say := o.Say
	o.Say = func(what string) {
		r.said = append(r.said, what)
		if say != nil {
			say(what)
		}
	}
	var f Family
	done := make(chan struct{})
	go func() {
		defer close(done)
		is, err := f.Run(t.Context(), o)
		r.ended <- outcome{is, err, time.Now()}
		r.handedOver()
	}()
	t.Cleanup(func() { // before that of the pipes, which Run uses
		select {
		case <-done:
		case <-time.After(patience):
			t.Error("Run has not returned")
		}
	})
	return r
}

func forever() *hold { return newHold(time.Now().Add(time.Hour)) }

func TestExitCodes(t *testing.T) {
	r := runHere(t, Options{Hold: forever()})
	r.ready()
	r.say("exit 42")
	if got := <-r.ended; got.Code != 42 || got.Lost || got.err != nil {
		t.Errorf("got %+v, want 42", got)
	}
	r = runHere(t, Options{Hold: forever()})
	pid, _ := r.ready()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := <-r.ended; got.Code != 128+9 || got.Lost || got.err != nil {
		t.Errorf("got %+v, want 137", got)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]int{
		"no-such-program-of-holdfast": CodeNotFound, "/no/such/program": CodeNotFound, plain: CodeNotExecutable,
		"/": CodeNotExecutable,
	} {
		var f Family
		_, err := f.Run(t.Context(), Options{Command: command, Hold: forever(), Say: func(string) {}})
		if not, ok := errors.AsType[*StartError](err); !ok || not.Code() != want {
			t.Errorf("%s: got %v, want a StartError with the code %d", command, err, want)
		}
	}
}

func TestNothingIsStarted(t *testing.T) {
	witness := filepath.Join(t.TempDir(), "witness")
	o := Options{Command: "touch", Args: []string{witness}, Hold: forever(), Say: func(string) {}}
	var f Family
	mine := errors.New("mine")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(mine)
	if _, err := f.Run(ctx, o); !errors.Is(err, mine) {
		t.Errorf("ctx had ended: got %v, want its cause", err)
	}
	lost := forever()
	lost.end(mine)
	o.Hold = lost
	_, err := f.Run(t.Context(), o)
	if is, ok := errors.AsType[*LostError](err); !ok || !errors.Is(is, mine) {
		t.Errorf("the hold was over: got %v, want a LostError with its cause", err)
	}
	for want, change := range map[string]func(*Options){
		"command": func(o *Options) { o.Command = "" }, "hold": func(o *Options) { o.Hold = nil },
		"on_lost": func(o *Options) { o.OnLost = Continue + 1 }, "grace": func(o *Options) { o.Grace = -1 },
		"margin": func(o *Options) { o.Margin = -1 }, "say": func(o *Options) { o.Say = nil },
	} {
		wrong := o
		wrong.Hold = forever()
		change(&wrong)
		_, err := f.Run(t.Context(), wrong)
		if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != want {
			t.Errorf("got %v, want a refusal of %s", err, want)
		}
	}
	if _, err := os.Stat(witness); err == nil {
		t.Error("a program was started")
	}
	o.Hold = forever()
	if is, err := f.Run(t.Context(), o); err != nil || is.Code != 0 {
		t.Fatalf("got %+v, %v", is, err)
	}
	if _, err := os.Stat(witness); err != nil {
		t.Errorf("the control was not started: %v", err)
	}
}

// Every signal of this process reaches the program, and its children in the group.
func TestSignalsArePassedOn(t *testing.T) {
	passed := passedOn() // before any Notify, which hides ignored signals
	r := runHere(t, Options{Hold: forever()})
	pid, group := r.ready()
	if pid != group || group == syscall.Getpgrp() {
		t.Errorf("program %d is in group %d, and this process in %d; want a group of its own", pid, group,
			syscall.Getpgrp())
	}
	r.say("fork")
	r.want("<nil>")
	if _, its := r.ready(); its != group {
		t.Fatalf("a child of the program is in group %d, want %d", its, group)
	}
	defer func() {
		if t.Failed() {
			_ = syscall.Kill(-group, syscall.SIGKILL) // nothing of a failed test runs on
		}
	}()
	for s, name := range names {
		if !slices.Contains(passed, s) { // these tests run below nohup
			continue
		}
		if err := syscall.Kill(os.Getpid(), s.(syscall.Signal)); err != nil {
			t.Fatal(err)
		}
		r.want(name, name)
	}
	r.say("exit 0")
	if got := <-r.ended; got.Code != 0 || got.Lost || got.err != nil {
		t.Errorf("got %+v, want 0", got)
	}
	r.silent()
}

// The program and all its group are terminated when the grace begins, and not before.
func TestTerminatedBeforeTheHoldIsOver(t *testing.T) {
	const grace, margin = time.Minute, time.Minute // no kill while this test listens
	h := forever()
	r := runHere(t, Options{Hold: h, Grace: grace, Margin: margin})
	r.ready()
	r.say("fork")
	r.want("<nil>")
	r.ready()
	until := time.Now().Add(margin + grace + time.Second/2)
	h.renew(until)
	syscall.Kill(os.Getpid(), syscall.SIGCONT) // any signal makes Run check the hold
	for terms := 0; terms < 2; {               // besides CONT: both processes print, each in an order of its own
		if r.hear() == "TERM" {
			terms++
		}
	}
	if now := time.Now(); now.Before(until.Add(-margin - grace)) {
		t.Errorf("SIGTERM came %v before the end, want at most %v", until.Sub(now), margin+grace)
	}
	h.end(errors.New("broken"))
	if got := <-r.ended; got.Code != 128+9 || !got.Lost {
		t.Errorf("got %+v, want 137 and lost", got)
	}
	for _, line := range r.rest() {
		if line != "CONT" {
			t.Errorf("got %s behind both TERM", line)
		}
	}
}

// A program that was sent SIGTERM is killed with all its group before another can have the lock, although the hold has
// come back.
func TestKilledBeforeTheHoldIsOver(t *testing.T) {
	const grace, margin = 2 * time.Second, time.Hour // no machine is so busy that Run takes the margin
	h := newHold(time.Now().Add(3 * margin))
	saw := make(chan time.Time, 2)
	r := runHere(t, Options{Hold: h, Grace: grace, Margin: margin, Say: func(string) {
		saw <- h.SafeUntil()
		h.renew(time.Now().Add(3 * margin))
	}})
	pid, _ := r.ready()
	r.say("fork")
	r.want("<nil>")
	other, _ := r.ready()
	h.lasts(margin + grace/2)
	syscall.Kill(os.Getpid(), syscall.SIGCONT) // any signal makes Run check the hold
	got := <-r.ended
	for _, gone := range []int{pid, other} {
		if err := syscall.Kill(gone, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d was left when Run returned: %v", gone, err)
		}
	}
	if got.Code != 128+9 || !got.Lost || got.err != nil {
		t.Errorf("got %+v, want 137 and lost", got)
	}
	if len(r.said) != 2 || !strings.Contains(r.said[0], "SIGTERM") || !strings.Contains(r.said[1], "killed") {
		t.Fatalf("got %q, want that SIGTERM was sent and that the program was killed", r.said)
	}
	if early := (<-saw).Sub(got.at); early <= 0 || early > margin {
		t.Errorf("Run returned %v before the end, want 0 to %v", early, margin)
	}
}

// The program gets its signal before Say is called, which may be slow.
func TestSignalsComeBeforeWords(t *testing.T) {
	h := forever()
	saying, proceed := make(chan string), make(chan struct{})
	r := runHere(t, Options{Hold: h, Grace: time.Minute, Margin: time.Minute, Say: func(what string) {
		saying <- what
		<-proceed
	}})
	r.ready()
	h.renew(time.Now().Add(90 * time.Second))
	syscall.Kill(os.Getpid(), syscall.SIGCONT) // any signal makes Run check the hold
	what := <-saying
	for r.hear() != "TERM" {
	}
	if !strings.Contains(what, "SIGTERM") {
		t.Errorf("got %q, want that SIGTERM was sent", what)
	}
	r.say("exit 0")
	close(proceed)
	if got := <-r.ended; got.Code != 0 || !got.Lost {
		t.Errorf("got %+v, want 0 and lost", got)
	}
}

func TestBrokenHoldKillsAtOnce(t *testing.T) {
	h := forever()
	r := runHere(t, Options{Hold: h, Grace: time.Minute})
	r.ready()
	h.end(errors.New("broken"))
	if got := <-r.ended; got.Code != 128+9 || !got.Lost {
		t.Errorf("got %+v, want 137 and lost", got)
	}
	r.silent() // no SIGTERM came
}

func TestOtherWaysToLose(t *testing.T) {
	h := forever()
	r := runHere(t, Options{Hold: h, OnLost: Term})
	r.ready()
	h.end(errors.New("broken"))
	for r.hear() != "TERM" {
	}
	r.say("exit 5")
	if got := <-r.ended; got.Code != 5 || !got.Lost {
		t.Errorf("term: got %+v, want 5 and lost", got)
	}
	h = forever()
	r = runHere(t, Options{Hold: h, OnLost: Continue})
	r.ready()
	h.end(errors.New("broken"))
	r.say("still here")
	r.want("heard still here")
	r.say("exit 6")
	if got := <-r.ended; got.Code != 6 || !got.Lost || len(r.said) != 1 {
		t.Errorf("continue: got %+v and %q, want 6, lost and one remark", got, r.said)
	}
}

// Leftover processes of the program's group end with it.
func TestNothingIsLeft(t *testing.T) {
	r := runHere(t, Options{Hold: forever()})
	r.ready()
	r.say("fork")
	r.want("<nil>")
	left, _ := r.ready()
	r.say("exit 0")
	if got := <-r.ended; got.Code != 0 || got.err != nil || len(r.said) != 0 {
		t.Errorf("got %+v and %q, want 0", got, r.said)
	}
	if err := syscall.Kill(left, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d was left when Run returned: %v", left, err)
		_ = syscall.Kill(left, syscall.SIGKILL)
	}
	r.silent()
}

func TestOrphansAreReaped(t *testing.T) {
	before := adopting()
	r := runHere(t, Options{Hold: forever()})
	r.ready()
	r.say("orphan")
	r.want("reaped")
	r.say("exit 0")
	if got := <-r.ended; got.Code != 0 || got.err != nil {
		t.Errorf("got %+v, want 0", got)
	}
	if adopting() != before {
		t.Error("this process still adopts orphans")
	}
}

// The ends of checks are theirs, although a reaper runs; and a check that is late is killed with all that it started.
func TestChecks(t *testing.T) {
	var f Family
	k := newTalk(t)
	ended := make(chan outcome, 1)
	go func() {
		is, err := f.Run(t.Context(), Options{
			Command: os.Args[0], Env: environment("listener"), Stdin: k.stdin, Stdout: k.stdout, Stderr: os.Stderr,
			Hold: forever(), Say: func(string) {},
		})
		ended <- outcome{is, err, time.Now()}
		k.handedOver()
	}()
	k.ready()
	for range 20 {
		if err := f.Check(t.Context(), "exit 0", nil); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := f.Check(t.Context(), "exit 3", nil); !errors.As(err, &exit) || exit.ExitCode() != 3 {
			t.Fatalf("got %v, want the code 3", err)
		}
	}
	late := errors.New("late")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	started := filepath.Join(t.TempDir(), "pid")
	checked := make(chan error, 1)
	go func() {
		checked <- f.Check(ctx, "sleep 1000 & echo $! >"+started+".new; mv "+started+".new "+started+"; wait", os.Environ())
	}()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	text, err := os.ReadFile(started)
	for ; err != nil; text, err = os.ReadFile(started) {
		select {
		case ended := <-checked:
			t.Fatalf("the check ended by itself: %v", ended)
		case <-again.C:
		}
	}
	cancel(late)
	if ended := <-checked; !errors.Is(ended, late) {
		t.Errorf("got %v, want the cause", ended)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for syscall.Kill(pid, 0) == nil {
		<-again.C
	}
	k.say("exit 2")
	if got := <-ended; got.Code != 2 || got.err != nil {
		t.Errorf("got %+v, want 2", got)
	}
}

// overIn returns the file of a runner's hold in its environment, and a function that makes the file.
func overIn(t *testing.T) (variable string, end func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "over")
	return overVariable + "=" + path, func() {
		t.Helper()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// startRunner starts a process that runs a listener until end is called.
func startRunner(t *testing.T, attr *syscall.SysProcAttr) (k *talk, cmd *exec.Cmd, end func()) {
	t.Helper()
	k = newTalk(t)
	over, end := overIn(t)
	cmd = exec.Command(os.Args[0])
	cmd.Env = environment("runner", over)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = k.stdin, k.stdout, os.Stderr, attr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	k.handedOver()
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return k, cmd, end
}

func TestDiesWithItsRunner(t *testing.T) {
	k, cmd, _ := startRunner(t, nil)
	k.ready()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	k.silent()
}

// A process that was stopped until the hold was over kills the program as the first thing.
func TestStoppedRunner(t *testing.T) {
	k, cmd, end := startRunner(t, nil)
	k.ready()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := waitFor(pPID, cmd.Process.Pid, syscall.WSTOPPED); err != nil {
		t.Fatal(err)
	}
	end()
	k.say("on my own")
	k.want("heard on my own") // neither SIGTERM nor SIGKILL came
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 128+9 {
		t.Errorf("got %v, want 137", err)
	}
	k.silent()
}

// Process 1 of a container: no other process reaps, and signals without a handler do nothing.
func TestProcess1(t *testing.T) {
	if os.Geteuid() != 0 {
		skip.Test(t, "only root may make a PID namespace")
	}
	k, cmd, _ := startRunner(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID})
	if pid, _ := k.ready(); pid == 1 || pid > 1000 {
		t.Fatalf("the program is process %d, want a small number other than 1", pid)
	}
	k.say("orphan")
	k.want("reaped")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	k.want("TERM")
	k.say("exit 9")
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 9 {
		t.Errorf("got %v, want 9", err)
	}
	k.silent()
}
