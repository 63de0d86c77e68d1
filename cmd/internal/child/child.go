// Package child runs a program under a hold, such as a lock, and ends the program before another holder can follow.
//
// # When the hold is in danger
//
// [Hold].SafeUntil moves forward with every touch that the cluster confirms. When SafeUntil stops moving, three moments
// come:
//
//	SafeUntil - Margin - Grace   SIGTERM to the program's process group
//	SafeUntil - Margin           SIGKILL to the group
//	SafeUntil                    from here on another may have what was held
//
// Margin is the time for this process to be scheduled, for the kernel to carry out the kill, and for the program's last
// system call to end: see [MarginOf]. A program that was sent SIGTERM is killed at the moment that was fixed then, also
// when SafeUntil moves forward again. When the hold ends without warning, because the lock was broken or the machine
// was suspended, the group is killed at once. The same holds when this process was stopped and continues after
// SafeUntil; until then the program ran on, and only the fencing token prevents harm.
//
// When its node is lost, a client of sessions finds another node while its promise has more than a quarter of the
// session's timeout left, and touches so early that more than a third is left as long as nodes answer (see
// client/internal/core/session/silence.go). So [GraceOf], a sixth, ends no program for the loss of one node, and
// [MaxGrace] is the longest Grace that ends none as long as nodes answer.
//
// # Processes
//
// The program has its own process group, which gets the signals of this process. Its children that stay in the group
// die with it: when the program ends, the rest of its group is killed before Run returns. A child that leaves the
// group, like a daemon or a job of an interactive shell, is not killed. When this process is killed with SIGKILL, the
// kernel kills only the program, and not its group. A container or a systemd unit ends all of them.
//
// While Run runs, this process adopts orphans among its descendants and reaps them, as process 1 must.
//
// # Terminals
//
// The program's group is in the background of a controlling terminal, and this process stays in the foreground: Ctrl-C
// reaches only this process, which passes it on once. The other programs of a pipeline or a script receive Ctrl-C as
// always. When a program reads the terminal, or changes it, the kernel stops the program: the program then gets the
// foreground, and Ctrl-C reaches only the program. Ctrl-Z stops the program and then this process. A program whose hold
// has ended meanwhile is killed before it can continue.
package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"sync"
	"time"

	"holdfast/session"
)

// Hold is the hold under which a program runs.
type Hold interface {
	// Context ends when the hold is over, or may be because SafeUntil has passed.
	Context() context.Context
	// SafeUntil returns the moment until which no other holder can follow, zero when the hold is over.
	SafeUntil() time.Time
}

// OnLost is the reaction of a program's supervisor when the hold is in danger.
type OnLost uint8

const (
	// Kill sends SIGTERM, and SIGKILL before the hold is over.
	Kill OnLost = iota
	// Term sends SIGTERM alone: the program may run on without the hold.
	Term
	// Continue sends no signal: the program runs on without the hold, and Options.Say gets a message.
	Continue
)

// String returns the value on the command line.
func (l OnLost) String() string {
	switch l {
	case Kill:
		return "kill"
	case Term:
		return "term"
	case Continue:
		return "continue"
	default:
		return fmt.Sprintf("OnLost(%d)", uint8(l))
	}
}

// ParseOnLost is the inverse of String.
func ParseOnLost(s string) (OnLost, error) {
	for l := Kill; l <= Continue; l++ {
		if l.String() == s {
			return l, nil
		}
	}
	return 0, &session.FieldError{Field: "on_lost", Limit: "kill, term or continue"}
}

// Options describe the program and its hold.
type Options struct {
	// Command is a path, or a name to find in PATH.
	Command string
	Args    []string
	// Env is the whole environment, in the form of [os.Environ].
	Env []string
	// Stdin, Stdout and Stderr are the program's. The program gets a file directly.
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	Hold   Hold
	OnLost OnLost
	// Grace is the time between SIGTERM and SIGKILL, Margin that between SIGKILL and SafeUntil. With 0 for Grace the
	// program gets no SIGTERM.
	Grace, Margin time.Duration
	// Say gets a sentence about each event of the program that its user did not ask for. Run calls it from the
	// goroutine that supervises the hold. So Say must not wait for the reader of the sentence: otherwise, for example
	// while the standard error is a full pipe, the program outlives its hold.
	Say func(string)
}

func (o *Options) check() error {
	for _, c := range []struct {
		good         bool
		field, limit string
	}{
		{o.Command != "", "command", "not empty"},
		{o.Hold != nil, "hold", "given"},
		{o.OnLost <= Continue, "on_lost", "kill, term or continue"},
		{o.Grace >= 0, "grace", "not negative"},
		{o.Margin >= 0, "margin", "not negative"},
		{o.Say != nil, "say", "given"},
	} {
		if !c.good {
			return fmt.Errorf("run a program: %w", &session.FieldError{Field: c.field, Limit: c.limit})
		}
	}
	return nil
}

// MarginOf returns the Margin for a session's timeout: a fiftieth of it, and 50 ms at least.
func MarginOf(timeout time.Duration) time.Duration { return max(timeout/50, 50*time.Millisecond) }

// GraceOf returns the default Grace for a session's timeout: a sixth.
func GraceOf(timeout time.Duration) time.Duration { return timeout / 6 }

// MaxGrace returns the longest Grace for a session's timeout: with Margin it is a third. A longer Grace would end
// programs while all nodes answer.
func MaxGrace(timeout time.Duration) time.Duration { return max(timeout/3-MarginOf(timeout), 0) }

// Ended is the end of a program.
type Ended struct {
	// Code is the exit code of the program, or 128 and the number of the signal that ended it.
	Code int
	// Lost reports whether the hold was in danger or over while the program ran, and OnLost was carried out.
	Lost bool
}

// Exit codes of shells for programs that could not be started.
const (
	CodeNotExecutable = 126
	CodeNotFound      = 127
)

// StartError is a program that could not be started.
type StartError struct {
	Command string
	Err     error
}

// Error names the program.
func (e *StartError) Error() string {
	err := e.Err
	if inner, ok := errors.AsType[*exec.Error](err); ok {
		err = inner.Err
	} else if inner, ok := errors.AsType[*fs.PathError](err); ok {
		err = inner.Err
	}
	return fmt.Sprintf("run %q: %v", e.Command, err)
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Code returns the exit code of shells: [CodeNotFound] or [CodeNotExecutable].
func (e *StartError) Code() int {
	if errors.Is(e.Err, exec.ErrNotFound) || errors.Is(e.Err, fs.ErrNotExist) {
		return CodeNotFound
	}
	return CodeNotExecutable
}

// LostError reports that the hold was over before the program was started.
type LostError struct{ Cause error }

// Error gives the cause.
func (e *LostError) Error() string {
	return fmt.Sprintf("lost before the program was started: %v", e.Cause)
}

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.Cause }

// Family starts and reaps the children of this process. The zero value is ready. Only one Run may run in a process,
// because signals, orphans and the terminal belong to the process.
type Family struct {
	// mu is held across a fork, so that the reaper of orphans does not reap a process before it is in own.
	mu sync.Mutex
	// own has the processes that the reaper must leave alone; guarded by mu.
	own map[int]struct{}
}

// Run runs a program until it ends, and returns its end. Signals to this process reach the program from before its
// start, so ctx only concerns the time before: when ctx has ended, Run starts nothing and returns its cause. After the
// start the end of ctx changes nothing. Other errors: [session.FieldError], a [StartError], a [LostError].
func (f *Family) Run(ctx context.Context, o Options) (Ended, error) {
	if err := o.check(); err != nil {
		return Ended{}, err
	}
	return f.run(ctx, &o)
}

// Check runs a short command of the shell while Run runs, without input and output. The error is nil if it exits with
// 0. When ctx ends first, the command is killed with its process group, and the error is the cause of ctx.
func (f *Family) Check(ctx context.Context, command string, env []string) error {
	return f.check(ctx, command, env)
}
