package child

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"holdfast/test/skip"
)

// The descriptors of the shell, besides the terminal and the output of the program.
const reports, orders = 3, 4

// shell leads a session on a terminal, and runs a runner in the foreground. It reports the runner's state, and accepts
// orders when the runner was stopped.
func shell() int {
	report, order := os.NewFile(reports, ""), bufio.NewScanner(os.NewFile(orders, ""))
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, environment("runner")
	cmd.SysProcAttr = &syscall.SysProcAttr{Foreground: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	tty := terminal{mine: syscall.Getpgrp()}
	signal.Ignore(syscall.SIGTTOU)
	for {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil {
			continue // a signal
		}
		var foreground int32
		tty.control(syscall.TIOCGPGRP, &foreground)
		if !status.Stopped() {
			fmt.Fprintln(report, "exited", status.ExitStatus(), int(foreground) == cmd.Process.Pid)
			return 0
		}
		tty.control(syscall.TIOCSPGRP, new(int32(tty.mine)))
		fmt.Fprintln(report, "stopped")
		if !order.Scan() {
			return 1
		}
		tty.lend(cmd.Process.Pid)
		syscall.Kill(-cmd.Process.Pid, syscall.SIGCONT)
	}
}

// shellSession is a shell on a terminal.
type shellSession struct {
	// program has the program's output; its input is the terminal. shell has the reports, and takes the orders.
	program, shell *talk
	keyboard       *os.File
	// end ends the hold.
	end func()
}

func startShell(t *testing.T, args ...string) *shellSession {
	t.Helper()
	s := &shellSession{program: newTalk(t), shell: newTalk(t)}
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		skip.Test(t, "no terminals here: ", err)
	}
	t.Cleanup(func() { keyboard.Close() })
	s.keyboard = keyboard
	var number, unlocked int32
	for request, at := range map[uintptr]*int32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &unlocked} {
		if _, _, failed := syscall.Syscall(syscall.SYS_IOCTL, keyboard.Fd(), request,
			uintptr(unsafe.Pointer(at))); failed != 0 {
			t.Fatal(failed)
		}
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	cmd := exec.Command(os.Args[0], args...)
	over, end := overIn(t)
	s.end, cmd.Env = end, environment("shell", over)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, s.program.stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{s.shell.stdout, s.shell.stdin}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.program.handedOver()
	s.shell.handedOver()
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return s
}

func (s *shellSession) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := s.keyboard.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

const ctrlC, ctrlZ, ctrlBackslash = "\x03", "\x1a", "\x1c"

// Ctrl-C and Ctrl-\ reach a program that leaves the terminal alone once: through its runner in the foreground.
func TestCtrlCComesOnce(t *testing.T) {
	s := startShell(t, "deaf")
	_, group := s.program.ready()
	s.press(t, ctrlC)
	s.program.want("INT")
	s.press(t, ctrlBackslash)
	s.program.want("QUIT")
	syscall.Kill(group, syscall.SIGKILL)
	s.shell.want(fmt.Sprintf("exited %d true", 128+9))
	s.program.silent() // no second INT
}

// A program that reads the terminal gets it, and loses it with its end.
func TestProgramGetsTheTerminal(t *testing.T) {
	s := startShell(t)
	s.program.ready()
	s.program.want("CONT") // it was stopped for reading
	s.press(t, "hello\n")
	s.program.want("heard hello")
	s.press(t, ctrlC)
	s.program.want("INT")
	s.press(t, "exit 4\n")
	s.shell.want("exited 4 true")
	s.program.silent()
}

// Ctrl-Z stops the program and its runner, and both continue: with the terminal if the program had it.
func TestCtrlZ(t *testing.T) {
	for _, args := range [][]string{{}, {"deaf"}} {
		t.Run(strings.Join(args, ""), func(t *testing.T) {
			s := startShell(t, args...)
			pid, _ := s.program.ready()
			reads := len(args) == 0
			if reads {
				s.program.want("CONT")
			}
			for range 2 {
				s.press(t, ctrlZ)
				s.shell.want("stopped")
				if got := stateOf(t, pid); got != "T" {
					t.Errorf("the program is in state %s, want T", got)
				}
				s.shell.say("fg")
				s.program.want("CONT")
			}
			if reads {
				s.press(t, "exit 3\n")
				s.shell.want("exited 3 true")
			} else {
				syscall.Kill(pid, syscall.SIGKILL)
				s.shell.want("exited 137 true")
			}
			s.program.silent()
		})
	}
}

// A program whose hold has ended while it was stopped does not run again.
func TestCtrlZForTooLong(t *testing.T) {
	s := startShell(t, "deaf")
	s.program.ready()
	s.press(t, ctrlZ)
	s.shell.want("stopped")
	s.end()
	s.shell.say("fg")
	s.shell.want("exited 137 true")
	s.program.silent() // not even CONT
}

// stateOf returns the kernel's letter for the state of a process.
func stateOf(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, behind, _ := strings.Cut(string(stat), ") ")
	return behind[:1]
}
