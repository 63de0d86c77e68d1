package child

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

const (
	// outputWait is how long Run keeps reading a program's output when the output is no file and leftover processes
	// still have it open.
	outputWait = time.Second
	// deathWait bounds how long Run waits for killed processes of the program's group to disappear. Only a process that
	// hangs in the kernel needs this time.
	deathWait = 2 * time.Second
	// signalsWaiting is how many signals wait while Run is busy. Go drops further signals.
	signalsWaiting = 64
)

// passedOn are the signals that the program gets. SIGTSTP is passed on in some cases, see terminals.
func passedOn() []os.Signal {
	all := []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGALRM, syscall.SIGTSTP,
	}
	handled := []os.Signal{syscall.SIGCHLD}
	for _, s := range all {
		if !signal.Ignored(s) { // under nohup, SIGHUP is ignored for the program too
			handled = append(handled, s)
		}
	}
	return handled
}

// supervisor is one run of a program.
type supervisor struct {
	*Options
	family     *Family
	escalation escalation
	cmd        *exec.Cmd
	// group is the program's process group, and the program's own id.
	group    int
	terminal *terminal
	signals  chan os.Signal
	// ended is closed when the program has ended. It is not reaped yet, so its ids are not reused.
	ended <-chan struct{}
	// stopRequested: a Ctrl-Z was passed on, wants that the program is to get the terminal when it continues.
	stopRequested, wants bool
	lost, killed         bool
}

func (f *Family) run(ctx context.Context, o *Options) (Ended, error) {
	s := &supervisor{
		Options: o, family: f, escalation: escalation{onLost: o.OnLost, grace: o.Grace, margin: o.Margin},
		signals: make(chan os.Signal, signalsWaiting),
	}
	signal.Notify(s.signals, passedOn()...)
	defer signal.Stop(s.signals)
	if ctx.Err() != nil {
		return Ended{}, context.Cause(ctx)
	}
	if held := o.Hold.Context(); held.Err() != nil {
		return Ended{}, &LostError{context.Cause(held)} //nolint:contextcheck // the hold outlives ctx
	}
	if !adopting() {
		if err := adopt(1); err != nil {
			return Ended{}, err
		}
		defer func() { _ = adopt(0) }()
	}
	if err := s.start(); err != nil {
		return Ended{}, &StartError{o.Command, err}
	}
	s.terminal = openTerminal()
	defer func() { s.terminal.close(s.killed) }()
	s.supervise() //nolint:contextcheck // the hold outlives ctx
	return s.finish()
}

// start starts the program.
func (s *supervisor) start() error {
	s.cmd = exec.Command(s.Command, s.Args...)
	s.cmd.Env, s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = s.Env, s.Stdin, s.Stdout, s.Stderr
	ended, err := s.family.launch(s.cmd)
	if err != nil {
		return err
	}
	s.ended, s.group = ended, s.cmd.Process.Pid
	return nil
}

// supervise passes signals on and supervises the hold until the program has ended.
func (s *supervisor) supervise() {
	lost := s.Hold.Context().Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.ended:
			return
		case got := <-s.signals:
			if got == syscall.SIGCONT {
				s.checkHold() // before the program can continue
			}
			s.signalled(got)
		case <-lost:
			lost = nil
		case <-timer.C:
		}
		if again := s.checkHold(); !again.IsZero() {
			timer.Reset(time.Until(again))
		}
	}
}

// checkHold acts on the state of the hold, and returns when to check again.
func (s *supervisor) checkHold() time.Time {
	until := s.Hold.SafeUntil()
	if s.Hold.Context().Err() != nil {
		until = time.Time{}
	}
	do, again := s.escalation.next(time.Now(), until)
	switch do {
	case terminate:
		s.lost = true
		s.send(syscall.SIGTERM) // before anything is said: nothing may delay a signal
		s.send(syscall.SIGCONT) // a stopped program can do nothing about the SIGTERM
		s.Say("the hold is in danger: sent SIGTERM to " + s.Command)
	case kill:
		s.lost, s.killed = true, true
		s.send(syscall.SIGKILL)
		over := "the hold is about to be over"
		if s.Hold.Context().Err() != nil {
			over = "the hold is over" + s.why()
		}
		s.Say(over + ": killed " + s.Command)
	case warn:
		s.lost = true
		s.Say("the hold is over" + s.why() + ": " + s.Command + " runs on without it")
	case nothing:
	}
	return again
}

// why says why the hold is over, if that is known yet.
func (s *supervisor) why() string {
	if cause := context.Cause(s.Hold.Context()); cause != nil {
		return ", " + cause.Error()
	}
	return ""
}

// signalled handles a signal of this process.
func (s *supervisor) signalled(got os.Signal) {
	switch got {
	case syscall.SIGCHLD:
		s.family.reap()
		s.stopped(stopSignal(s.group))
	case syscall.SIGTSTP:
		if s.terminal != nil && continuable() {
			s.stopRequested = true
			s.send(syscall.SIGTSTP)
		}
	case syscall.SIGCONT:
		s.proceed()
	default:
		if number, ok := got.(syscall.Signal); ok {
			s.send(number)
		}
	}
}

// stopped follows the program, which a signal has stopped. 0 is none.
func (s *supervisor) stopped(by syscall.Signal) {
	wants := by == syscall.SIGTTIN || by == syscall.SIGTTOU
	switch {
	case by == 0, s.terminal == nil:
		return
	case wants && s.terminal.isMine():
		s.terminal.lend(s.group)
		s.send(syscall.SIGCONT)
		return
	case by == syscall.SIGSTOP && !s.stopRequested && !s.terminal.lent:
		return // another process stopped the program alone
	case !continuable() && wants:
		s.Say(s.Command + " is stopped: it wants the terminal, which is another program's")
		return
	case !continuable():
		s.send(syscall.SIGCONT)
		return
	}
	s.send(syscall.SIGSTOP) // the whole group: none of it may run while the hold is unsupervised
	s.stopRequested, s.wants = false, wants || s.terminal.lent
	s.terminal.takeBack()
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // the next that happens is SIGCONT
}

// proceed continues a stopped program.
func (s *supervisor) proceed() {
	if s.wants && s.terminal.isMine() {
		s.terminal.lend(s.group)
		s.wants = false
	}
	s.send(syscall.SIGCONT)
}

// send sends a signal to the program's group. The group is there until the program was waited for.
func (s *supervisor) send(what syscall.Signal) { _ = syscall.Kill(-s.group, what) }

// finish kills the rest of the program's group, and returns the program's end.
func (s *supervisor) finish() (Ended, error) {
	s.send(syscall.SIGKILL)
	err := s.cmd.Wait()
	s.family.forget(s.group)
	s.buryGroup()
	if s.cmd.ProcessState == nil {
		return Ended{Lost: s.lost}, fmt.Errorf("wait for %q: %w", s.Command, err)
	}
	is := Ended{Code: s.cmd.ProcessState.ExitCode(), Lost: s.lost}
	if status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		is.Code = codeOfSignal + int(status.Signal())
	}
	return is, nil // other errors of Wait are about the code, or about copied output
}

// buryGroup waits until nothing of the program's group is left.
func (s *supervisor) buryGroup() {
	late := time.NewTimer(deathWait)
	defer late.Stop()
	for {
		s.family.reap()
		if syscall.Kill(-s.group, 0) != nil {
			return
		}
		select {
		case <-s.signals: // only SIGCHLD matters; there is no program left for the others
		case <-late.C:
			s.Say("processes that " + s.Command + " has started hang in the kernel, and were not seen to end")
			return
		}
	}
}

// launch starts a process with its own group, which the reaper leaves alone. The channel is closed when the process has
// ended; the caller then waits for it and forgets it. The kernel kills the process when the thread that started it
// ends: a goroutine keeps that thread until then.
func (f *Family) launch(cmd *exec.Cmd) (<-chan struct{}, error) {
	cmd.WaitDelay = outputWait
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	ended, started := make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := f.start(cmd)
		started <- err
		if err == nil {
			awaitEnd(cmd.Process.Pid)
		}
	}()
	if err := <-started; err != nil {
		<-ended
		return nil, err
	}
	return ended, nil
}

func (f *Family) check(ctx context.Context, command string, env []string) error {
	cmd := exec.Command("sh", "-c", command)
	cmd.Env = env
	ended, err := f.launch(cmd)
	if err != nil {
		return &StartError{"sh", err}
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
	late := ctx.Err() != nil
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // leftover children too
	err = cmd.Wait()
	f.forget(cmd.Process.Pid)
	f.reap()
	if late {
		return context.Cause(ctx)
	}
	return err
}

// start starts a process that the reaper leaves alone.
func (f *Family) start(cmd *exec.Cmd) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	if f.own == nil {
		f.own = map[int]struct{}{}
	}
	f.own[cmd.Process.Pid] = struct{}{}
	return nil
}

// forget removes a process of start that was reaped.
func (f *Family) forget(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.own, pid)
}

// reap reaps orphans that have ended. An unreaped process of start may hide orphans: reap is called again after the
// process was reaped.
func (f *Family) reap() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for pid := ended(); pid != noProcess; pid = ended() {
		if _, own := f.own[pid]; own {
			return
		}
		_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	}
}
