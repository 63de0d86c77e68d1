package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/cmd/internal/arg"
	"holdfast/cmd/internal/child"
	"holdfast/tree"
)

// The variables of a program that runs under a hold.
const (
	tokenVariable     = "HOLDFAST_TOKEN"      //nolint:gosec // the name of a fencing token, which is no secret
	safeUntilVariable = "HOLDFAST_SAFE_UNTIL" // as of the start
	sessionVariable   = "HOLDFAST_SESSION"
	lockVariable      = "HOLDFAST_LOCK" // the path of the entry that the token is of
)

// underHelp is part of the help of every command that runs a program.
const underHelp = `The program runs in a process group of its own, and its signals are those of this command. Its
exit code is that of this command, or 128 and the number of the signal that ended it; 126 and 127
as in shells when it cannot be started.

When the cluster does not confirm that the session lives, the program gets SIGTERM, and after
--grace SIGKILL with all its group, early enough that it is dead before another can have the lock.
If it then exits with 0, the exit code is 1 all the same. --on-lost term sends no SIGKILL, and
--on-lost continue nothing. If this command itself is killed, the kernel kills the program, but
not the program's children. If this command is stopped, the program runs on: only a resource that
checks ` + tokenVariable + ` is safe then.

The program has in its environment ` + tokenVariable + `, the fencing token, INDEX.POSITION;
` + lockVariable + `, the path of the entry that the token is of; ` + sessionVariable + `, the id of the
session; and ` + safeUntilVariable + `, until when the session was safe at the start. The rest is the environment of this command, ` + authTokenVariable + ` and ` + digestVariable + `
included: "env -u" before the program takes them away.`

// underFlags are the flags of commands that run a program under a hold.
type underFlags struct {
	wait, timeout, linger, grace time.Duration
	onLost                       string
	cmd                          *cobra.Command
}

// add adds the flags to a command; what names what is held.
func (f *underFlags) add(cmd *cobra.Command, what string) {
	f.cmd = cmd
	explainFlags(cmd)
	flags := cmd.Flags()
	flags.Var(arg.NotNegative(&f.wait, 0), "wait", "how long to wait for "+what+"; 0 tries once")
	flags.Lookup("wait").DefValue = "for ever"
	flags.Var(timeoutValue(&f.timeout), "timeout", "how long the session lives without a touch, "+timeoutHelp)
	flags.Var(arg.NotNegative(&f.linger, 0), "linger",
		"the lock-delay: when the session expires, nobody else gets "+what+" for so long; at most 1m")
	flags.Var(arg.NotNegative(&f.grace, 0), "grace",
		"time between SIGTERM and SIGKILL when the hold is in danger; at most about a third of the timeout")
	flags.Lookup("grace").DefValue = "a sixth of the timeout"
	flags.StringVar(&f.onLost, "on-lost", child.Kill.String(),
		"what becomes of the program when the hold is in danger: kill, term or continue")
	completeWords(cmd, "on-lost", child.Kill.String(), child.Term.String(), child.Continue.String())
}

// check returns a usage error for values that cannot work.
func (f *underFlags) check() error {
	if _, err := child.ParseOnLost(f.onLost); err != nil {
		return usage("--on-lost %q: want kill, term or continue", f.onLost)
	}
	if f.linger > tree.MaxLinger || f.linger%time.Millisecond != 0 {
		return usage("--linger %v: want whole milliseconds, at most %v", f.linger, tree.MaxLinger)
	}
	return nil
}

// graceFor returns the grace under a session's timeout.
func (f *underFlags) graceFor(timeout time.Duration) (time.Duration, error) {
	most := child.MostGrace(timeout)
	switch {
	case !f.cmd.Flags().Changed("grace"):
		return min(child.GraceOf(timeout), most), nil
	case f.grace > most:
		return 0, usage("--grace %v: want at most %v with a session's timeout of %v: otherwise the program would be "+
			"ended while all nodes answer", f.grace, most, timeout)
	}
	return f.grace, nil
}

// tries reports whether the command does not wait.
func (f *underFlags) tries() bool { return f.cmd.Flags().Changed("wait") && f.wait == 0 }

// waiting returns ctx with the time limit of the wait, if there is one.
func (f *underFlags) waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.wait == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, f.wait, waitedError{f.wait})
}

// waitedError is the end of the wait for a lock. It is a [recipes.ErrBusy].
type waitedError struct{ limit time.Duration }

func (e waitedError) Error() string {
	return fmt.Sprintf("%v, not free within --wait %v", recipes.ErrBusy, e.limit)
}

// Is makes e a [recipes.ErrBusy].
func (waitedError) Is(target error) bool { return target == recipes.ErrBusy }

// exitError is the end of a program that this command ran. Nothing is to be said about it.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// held is what is held while a program runs.
type held struct {
	child.Hold
	path  string
	token tree.Stamp
	// lost returns why the hold is over, nil while it is not.
	lost func() error
	// giveUp ends the hold.
	giveUp func(context.Context) error
}

// holds builds the commands that run programs under a hold, and those that show and break holds.
type holds struct{ *treeCommands }

// under is one run of a command that runs a program under a hold.
type under struct {
	holds
	flags *underFlags
	// label is that of the session: holdfast=label.
	label string
	// take takes what is to be held. Its ctx has the time limit of the wait.
	take func(ctx context.Context, s *client.Session) (held, error)
	// command is the program with its arguments.
	command []string
}

// run opens a session, takes the hold, and runs the program.
func (u *under) run(ctx context.Context) error {
	u.out.leaveAside()
	if err := u.flags.check(); err != nil {
		return err
	}
	cl, err := u.target.client(client.Config{Endpoints: u.target.endpoints})
	if err != nil {
		return err
	}
	defer func() { _ = cl.Close() }() // always nil
	s, err := limited(ctx, u.target, func(ctx context.Context) (*client.Session, error) {
		return cl.Open(ctx, client.SessionOptions{
			Timeout: u.flags.timeout, Labels: map[string]string{"holdfast": u.label},
		})
	})
	if err != nil {
		return err
	}
	defer closeSession(ctx, u.cli, s)
	return u.holding(ctx, s)
}

// holding takes the hold, runs the program and gives the hold up.
func (u *under) holding(ctx context.Context, s *client.Session) error {
	grace, err := u.flags.graceFor(s.Timeout())
	if err != nil {
		return err
	}
	waiting, cancel := u.flags.waiting(ctx)
	defer cancel()
	h, err := u.take(waiting, s)
	if err != nil {
		return err
	}
	onLost, err := child.ParseOnLost(u.flags.onLost)
	if err != nil {
		return err
	}
	var family child.Family
	is, err := family.Run(ctx, child.Options{
		Command: u.command[0], Args: u.command[1:], Env: environment(os.Environ(), &h, s), Stdin: u.stdin,
		Stdout: u.out.stdout, Stderr: u.out.stderr, Hold: h, OnLost: onLost, Grace: grace,
		Margin: child.MarginOf(s.Timeout()),
		Say:    func(what string) { u.out.complain("holdfast: %s: %s\n", h.path, escaped(what)) },
	})
	return u.ended(ctx, &h, onLost, is, err)
}

// ended gives the hold up, and returns what the end of the program makes of the command.
func (u *under) ended(ctx context.Context, h *held, onLost child.OnLost, is child.Ended, failed error) error {
	why := h.lost()
	if why == nil {
		giving, cancel := u.target.bounded(context.WithoutCancel(ctx))
		defer cancel()
		if err := h.giveUp(giving); err != nil {
			u.out.complain("holdfast: %s; it is given up with the session\n", oneLine(err))
		}
	}
	err := u.programEnd(h.path, is, failed)
	switch {
	case err != nil || onLost == child.Continue:
		return err
	case why != nil:
		return fmt.Errorf("%s was lost before the program ended: %w", h.path, why)
	case is.Lost:
		return fmt.Errorf("%s was in danger, and the program was told to end", h.path)
	}
	return nil
}

// programEnd returns what the end of a program makes of the command; nil for the code 0.
func (c holds) programEnd(path string, is child.Ended, failed error) error {
	not, unstarted := errors.AsType[*child.StartError](failed)
	switch {
	case unstarted:
		c.out.complain("holdfast: %s\n", oneLine(failed))
		return exitError{not.Code()}
	case failed != nil:
		return fmt.Errorf("%s: %w", path, failed)
	case is.Code != 0:
		return exitError{is.Code}
	}
	return nil
}

// environment returns that of a program under a hold.
func environment(mine []string, h *held, s *client.Session) []string {
	set := [][2]string{
		{tokenVariable, h.token.String()},
		{lockVariable, h.path},
		{sessionVariable, s.ID().String()},
		{safeUntilVariable, h.SafeUntil().Round(0).UTC().Format(time.RFC3339Nano)},
	}
	var all []string
	for _, variable := range mine {
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
		return usage("%q takes NAME -- COMMAND [ARGUMENT...]", cmd.CommandPath())
	}
	return nil
}

// explainFlags has a command that runs programs explain a flag that it does not have: it may be the program's.
func explainFlags(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(of *cobra.Command, err error) error {
		refused := flagRefused(err)
		if _, explained := errors.AsType[usageError](refused); explained || of != cmd { // its own commands run no program
			return refused
		}
		return usage("%w: the program and its flags come after \"--\"", err)
	})
}

// below returns the path that a name stands for: the name itself if it is a path, otherwise an entry below base.
func below(base, name string) (string, error) {
	path := name
	if !strings.HasPrefix(name, tree.Root) {
		path = base + tree.Root + name
	}
	if path == tree.Root {
		return "", usage("NAME %q: want a name, or a path below /", name)
	}
	return path, pathGiven(path)
}
