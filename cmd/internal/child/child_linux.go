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
	// outputWait is how long Run reads what a program has written, when its output is no file and processes that it
	// left behind have the output open.
	outputWait = time.Second
	// deathWait bounds how long Run waits for killed processes of the program's group to be gone. Only a process that
	// hangs in the kernel takes so long.
	deathWait = 2 * time.Second
	// signalsWaiting is how many signals wait while Run does something else. Go drops further ones.
	signalsWaiting = 64
)

// passedOn are the signals that the program gets. SIGTSTP is one that it may get, see terminals.
func passedOn() []os.Signal {
	all := []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGALRM, syscall.SIGTSTP,
	}
	heard := []os.Signal{syscall.SIGCHLD}
	for _, s := range all {
		if !signal.Ignored(s) { // nohup has SIGHUP ignored, and so the program has
			heard = append(heard, s)
		}
	}
	return heard
}

// supervisor is one run of a program.
type supervisor struct {
	*Options
	family *Family
	guard  guard
	cmd    *exec.Cmd
	// group is the program's process group, and the program's own id.
	group    int
	terminal *terminal
	signals  chan os.Signal
	// ended is closed when the program has ended. It was not waited for: its ids are not used anew.
	ended <-chan struct{}
	// asked says that a Ctrl-Z was passed on, wants that the program is to get the terminal when it goes on.
	asked, wants bool
	lost, killed bool
}

func (f *Family) run(ctx context.Context, o *Options) (Ended, error) {
	s := &supervisor{
		Options: o, family: f, guard: guard{onLost: o.OnLost, grace: o.Grace, margin: o.Margin},
		signals: make(chan os.Signal, signalsWaiting),
	}
	signal.Notify(s.signals, passedOn()...)
	defer signal.Stop(s.signals)
	if ctx.Err() != nil {
		return Ended{}, context.Cause(ctx)
	}
	if held := o.Hold.Context(); held.Err() != nil {
		return Ended{}, &LostError{context.Cause(held)} //nolint:contextcheck // the hold lives on its own
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
	s.supervise() //nolint:contextcheck // the hold lives on its own
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

// supervise passes signals on and looks after the hold until the program has ended.
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
				s.look() // before the program can go on
			}
			s.signalled(got)
		case <-lost:
			lost = nil
		case <-timer.C:
		}
		if again := s.look(); !again.IsZero() {
			timer.Reset(time.Until(again))
		}
	}
}

// look does what the hold demands now, and returns when to look again.
func (s *supervisor) look() time.Time {
	until := s.Hold.SafeUntil()
	if s.Hold.Context().Err() != nil {
		until = time.Time{}
	}
	do, again := s.guard.next(time.Now(), until)
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

// signalled does what a signal of this process demands.
func (s *supervisor) signalled(got os.Signal) {
	switch got {
	case syscall.SIGCHLD:
		s.family.reap()
		s.stopped(stopSignal(s.group))
	case syscall.SIGTSTP:
		if s.terminal != nil && continuable() {
			s.asked = true
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
	case by == syscall.SIGSTOP && !s.asked && !s.terminal.lent:
		return // somebody has stopped the program, and nothing else
	case !continuable() && wants:
		s.Say(s.Command + " is stopped: it wants the terminal, which is another program's")
		return
	case !continuable():
		s.send(syscall.SIGCONT)
		return
	}
	s.send(syscall.SIGSTOP) // the whole group: nothing of it may run while nobody looks after the hold
	s.asked, s.wants = false, wants || s.terminal.lent
	s.terminal.takeBack()
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // the next that happens is SIGCONT
}

// proceed has a stopped program go on.
func (s *supervisor) proceed() {
	if s.wants && s.terminal.isMine() {
		s.terminal.lend(s.group)
		s.wants = false
	}
	s.send(syscall.SIGCONT)
}

// send sends a signal to the program's group. The group is there until the program was waited for.
func (s *supervisor) send(what syscall.Signal) { _ = syscall.Kill(-s.group, what) }

// finish kills what is left of the program's group, and returns how the program has ended.
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
		case <-s.signals: // SIGCHLD is the one that matters, nobody is left for the others
		case <-late.C:
			s.Say("processes that " + s.Command + " has started hang in the kernel, and were not seen to end")
			return
		}
	}
}

// launch starts a process with a group of its own, whose end is not for the reaper. The channel is closed when it has
// ended; it is to be waited for and forgotten then. The kernel kills the process when the thread that started it ends:
// a goroutine keeps that thread until then.
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
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it has left behind too
	err = cmd.Wait()
	f.forget(cmd.Process.Pid)
	f.reap()
	if late {
		return context.Cause(ctx)
	}
	return err
}

// start starts a process whose end is not for the reaper.
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

// forget says that a process of start was waited for.
func (f *Family) forget(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.own, pid)
}

// reap waits for orphans that have ended. A process of start that nobody has waited for may hide some: reap is called
// again when that was done.
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
