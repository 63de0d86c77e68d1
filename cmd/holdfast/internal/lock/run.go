package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/cmd/internal/child"
	"holdfast/tree"
)

// Environment variables of the program.
const (
	tokenVariable     = "HOLDFAST_TOKEN"      //nolint:gosec // the name of a fencing token, which is no secret
	safeUntilVariable = "HOLDFAST_SAFE_UNTIL" // at the start
	sessionVariable   = "HOLDFAST_SESSION"
	lockVariable      = "HOLDFAST_LOCK" // the path of the contender's entry
)

// programHelp is part of the help of every command that runs a program.
const programHelp = `The program runs in its own process group and gets the signals of this command. The exit code of
this command is the program's, or 128 plus the number of the signal that ended it; 126 or 127, as in
shells, when the program cannot be started.

When the cluster does not confirm that the session is alive, the program gets SIGTERM, and after
--grace-period its process group gets SIGKILL, early enough that it is dead before another client
can acquire the lock. If the program then exits with 0, the exit code is 1. --on-lost term sends no
SIGKILL, and --on-lost continue sends nothing. If this command itself is killed, the kernel kills
the program, but not the program's children. If this command is stopped, the program runs on: only
resources that check ` + tokenVariable + ` are safe then.

The environment of the program has ` + tokenVariable + `, the fencing token, INDEX.POSITION;
` + lockVariable + `, the path of the lock's entry; ` + sessionVariable + `, the session id; and
` + safeUntilVariable + `, until when the session was safe at the start. The rest is the environment of
this command, with ` + cli.AuthTokenVariable + ` and ` + cli.DigestVariable + `: "env -u" before the program
removes them.`

// programFlags are the flags of "lock" and "elect".
type programFlags struct {
	wait, timeout, lockDelay, grace time.Duration
	onLost                          string
	changed                         func(flag string) bool
}

// register adds the flags to a command; what names the thing that the command acquires.
func (f *programFlags) register(cmd *cobra.Command, what string) {
	f.changed = cmd.Flags().Changed
	cli.ProgramFlags(cmd)
	flags := cmd.Flags()
	flags.Var(arg.NotNegative(&f.wait, 0), "wait", "how long to wait for "+what+"; 0 tries once")
	flags.Lookup("wait").DefValue = "for ever"
	cli.AddTimeoutFlag(cmd, &f.timeout, cli.SessionTimeout)
	flags.Var(arg.NotNegative(&f.lockDelay, 0), "lock-delay",
		"time after the session expires in which no other client acquires "+what+", at most 1m")
	flags.Var(arg.NotNegative(&f.grace, 0), "grace-period",
		"time between SIGTERM and SIGKILL when the session may be lost; at most about a third of the timeout")
	flags.Lookup("grace-period").DefValue = "a sixth of the timeout"
	flags.StringVar(&f.onLost, "on-lost", child.Kill.String(),
		"what to do with the program when the session may be lost: kill, term or continue")
	cli.CompleteWords(cmd, "on-lost", child.Kill.String(), child.Term.String(), child.Continue.String())
}

// check returns a usage error for values that cannot work.
func (f *programFlags) check() error {
	if _, err := child.ParseOnLost(f.onLost); err != nil {
		return cli.Usage("--on-lost %q: want kill, term or continue", f.onLost)
	}
	if f.lockDelay > tree.MaxLockDelay || f.lockDelay%time.Millisecond != 0 {
		return cli.Usage("--lock-delay %v: want whole milliseconds, at most %v", f.lockDelay, tree.MaxLockDelay)
	}
	return nil
}

// graceFor returns the grace period for a session's timeout.
func (f *programFlags) graceFor(timeout time.Duration) (time.Duration, error) {
	most := child.MaxGrace(timeout)
	switch {
	case !f.changed("grace-period"):
		return min(child.GraceOf(timeout), most), nil
	case f.grace > most:
		return 0, cli.Usage("--grace-period %v: want at most %v with a session's timeout of %v: a longer grace would "+
			"end the program while all nodes answer", f.grace, most, timeout)
	}
	return f.grace, nil
}

// tries reports whether the command tries once instead of waiting.
func (f *programFlags) tries() bool { return f.changed("wait") && f.wait == 0 }

// withWait returns ctx with the time limit of --wait, if there is one.
func (f *programFlags) withWait(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.wait == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, f.wait, waitError{f.wait})
}

// waitError is the end of --wait. It is a [recipes.ErrBusy].
type waitError struct{ limit time.Duration }

func (e waitError) Error() string {
	return fmt.Sprintf("%v, not released within --wait %v", recipes.ErrBusy, e.limit)
}

// Is makes e a [recipes.ErrBusy].
func (waitError) Is(target error) bool { return target == recipes.ErrBusy }

// hold is a lock or a leadership while a program runs.
type hold struct {
	child.Hold
	path  string
	token tree.Stamp
	// lost returns why the hold has ended, nil while it lasts.
	lost func() error
	// release ends the hold.
	release func(context.Context) error
}

// runner is one run of a command that runs a program under a hold.
type runner struct {
	env   *cli.Env
	flags *programFlags
	// work is the label of the session: holdfast=work.
	work string
	// acquire acquires the hold. Its ctx has the time limit of --wait.
	acquire func(ctx context.Context, s *client.Session) (hold, error)
	// command is the program with its arguments.
	command []string
}

// run opens a session, acquires the hold, and runs the program.
func (r *runner) run(ctx context.Context) error {
	r.env.Out.BufferStderr()
	if err := r.flags.check(); err != nil {
		return err
	}
	cl, err := r.env.Cluster.NewClient(client.Config{Endpoints: r.env.Cluster.Endpoints})
	if err != nil {
		return err
	}
	defer func() { _ = cl.Close() }() // always nil
	return r.env.WithSession(ctx, cl, r.env.SessionFor(r.work, r.flags.timeout), r.runIn)
}

// runIn acquires the hold in a session, runs the program and releases the hold.
func (r *runner) runIn(ctx context.Context, s *client.Session) error {
	grace, err := r.flags.graceFor(s.Timeout())
	if err != nil {
		return err
	}
	onLost, err := child.ParseOnLost(r.flags.onLost)
	if err != nil {
		return err
	}
	waiting, cancel := r.flags.withWait(ctx)
	defer cancel()
	h, err := r.acquire(waiting, s)
	if err != nil {
		return err
	}
	var family child.Family
	ended, err := family.Run(ctx, child.Options{
		Command: r.command[0], Args: r.command[1:], Env: environment(r.env.Environ, &h, s), Stdin: r.env.Stdin,
		Stdout: r.env.Out.Stdout, Stderr: r.env.Out.Stderr, Hold: h, OnLost: onLost, Grace: grace,
		Margin: child.MarginOf(s.Timeout()),
		Say:    func(what string) { r.env.Out.Messagef("holdfast: %s: %s\n", h.path, cli.Escape(what)) },
	})
	return r.finish(ctx, &h, onLost, ended, err)
}

// finish releases the hold, and returns the outcome of the command from the end of the program.
func (r *runner) finish(ctx context.Context, h *hold, onLost child.OnLost, ended child.Ended, failed error) error {
	lost := h.lost()
	if lost == nil {
		releasing, cancel := r.env.Cluster.WithTimeout(context.WithoutCancel(ctx))
		defer cancel()
		if err := h.release(releasing); err != nil {
			r.env.Out.Messagef("holdfast: %s; it is released with the session\n", cli.OneLine(err))
		}
	}
	err := programError(r.env, h.path, ended, failed)
	switch {
	case err != nil || onLost == child.Continue:
		return err
	case lost != nil:
		return fmt.Errorf("%s was lost before the program ended: %w", h.path, lost)
	case ended.Lost:
		return fmt.Errorf("%s was in danger of being lost, and the program got SIGTERM", h.path)
	}
	return nil
}

// programError returns the error of a command whose program has ended, nil for the exit code 0.
func programError(env *cli.Env, path string, ended child.Ended, failed error) error {
	start, unstarted := errors.AsType[*child.StartError](failed)
	switch {
	case unstarted:
		env.Out.Messagef("holdfast: %s\n", cli.OneLine(failed))
		return cli.ExitError{Code: start.Code()}
	case failed != nil:
		return fmt.Errorf("%s: %w", path, failed)
	case ended.Code != 0:
		return cli.ExitError{Code: ended.Code}
	}
	return nil
}

// environment returns the environment of the program.
func environment(own []string, h *hold, s *client.Session) []string {
	set := [][2]string{
		{tokenVariable, h.token.String()},
		{lockVariable, h.path},
		{sessionVariable, s.ID().String()},
		{safeUntilVariable, h.SafeUntil().Round(0).UTC().Format(time.RFC3339Nano)},
	}
	var all []string
	for _, variable := range own {
		name, _, _ := strings.Cut(variable, "=")
		if !overridden(set, name) {
			all = append(all, variable)
		}
	}
	for _, v := range set {
		all = append(all, v[0]+"="+v[1])
	}
	return all
}

func overridden(set [][2]string, name string) bool {
	for _, v := range set {
		if v[0] == name {
			return true
		}
	}
	return false
}

// programArgs checks the arguments of commands that run a program.
func programArgs(cmd *cobra.Command, args []string) error {
	if cmd.ArgsLenAtDash() != 1 || len(args) < 2 {
		return cli.Usage("%q takes NAME -- COMMAND [ARGUMENT...]", cmd.CommandPath())
	}
	return nil
}

// pathOf returns the path that a name means: the name itself if it is a path, otherwise an entry below base.
func pathOf(base, name string) (string, error) {
	path := name
	if !strings.HasPrefix(name, tree.Root) {
		path = base + tree.Root + name
	}
	if path == tree.Root {
		return "", cli.Usage("NAME %q: want a name, or a path below /", name)
	}
	return path, cli.CheckPath(path)
}
