package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/cmd/internal/arg"
	"holdfast/cmd/internal/child"
	"holdfast/tree"
)

const (
	// servicesPath is where services are that are given by name.
	servicesPath = "/services"
	// memberVariable has the path of a service's entry.
	memberVariable = "HOLDFAST_MEMBER"
	// againAfter is the time between two attempts to register an instance whose entry was removed.
	againAfter = time.Second
)

// registerFlags are the flags of register.
type registerFlags struct {
	address, id, check string
	labels             []string

	timeout, wait, every time.Duration
}

func (c holds) register() *cobra.Command {
	var f registerFlags
	cmd := &cobra.Command{
		Use: "register SERVICE -- COMMAND [ARGUMENT...]", Short: "Run a program that is registered as a service",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.ArgsLenAtDash() != 1 || len(args) < 2:
				return usage("%q takes SERVICE -- COMMAND [ARGUMENT...]", cmd.CommandPath())
			case cmd.Flags().Changed("every") && f.check == "":
				return usage("--every is for --check")
			}
			return nil
		},
		Long: `Register an instance of a service, run its program, and take the registration back when the program
ends. The registration belongs to a session. If that expires, because the cluster was out of reach,
the command opens another one and registers the instance again; so it does when somebody has removed
the instance's entry. The program runs on.

SERVICE stands for the entry ` + servicesPath + `/SERVICE of the tree, unless it begins with a slash. An
instance is an entry below it, whose data has address, labels and health in JSON. The program has
its path in ` + memberVariable + `.

--check is a command of the shell. The instance is critical until the command has exited with 0, and
again when it exits otherwise or takes longer than --every.

Signals and exit codes are as in "holdfast lock".`,
		Example: `  holdfast register web --address 10.0.0.7:80 --label zone=a -- ./server
  holdfast register web --address 10.0.0.7:80 --check 'curl -sf localhost/health' --every 5s -- ./server`,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := below(servicesPath, args[0])
			if err != nil {
				return err
			}
			r, err := f.registration(c, path)
			if err != nil {
				return err
			}
			return r.run(cmd.Context(), args[1:])
		},
	}
	explainFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.address, "address", "", "where to reach the instance")
	flags.StringVar(&f.id, "id", "", "name of the instance among those of the service")
	flags.Lookup("id").DefValue = "HOST:PROCESS"
	flags.StringArrayVar(&f.labels, "label", nil,
		"label KEY=VALUE, or KEY= for an empty value; may be repeated")
	flags.Var(timeoutValue(&f.timeout), "timeout", "how long the session lives without a touch, "+timeoutHelp)
	flags.Var(arg.Positive(&f.wait, time.Minute, 0), "wait",
		"how long to wait for the registration, as while a former instance with the same id has not expired")
	flags.StringVar(&f.check, "check", "", "command of the shell that exits with 0 if the instance is healthy")
	flags.Var(arg.Positive(&f.every, 10*time.Second, 0), "every", "time between two checks, and the limit of one")
	return c.ofTree(cmd)
}

// registration returns what the flags ask for.
func (f *registerFlags) registration(c holds, path string) (*registration, error) {
	labels, err := parseLabels(f.labels)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	m := recipes.Member{
		ID: cmp.Or(f.id, fmt.Sprintf("%s:%d", host, os.Getpid())), Address: f.address, Labels: labels,
		Health: recipes.Passing,
	}
	if f.check != "" {
		m.Health = recipes.Critical
	}
	if strings.Contains(m.ID, tree.Root) {
		return nil, usage("--id %q: want a name without a slash", m.ID)
	}
	if _, err := below(path, m.ID); err != nil {
		return nil, err
	}
	return &registration{holds: c, flags: f, path: path, member: m, joined: make(chan struct{}, 1)}, nil
}

// registration is one run of "register".
type registration struct {
	holds
	flags  *registerFlags
	path   string
	family child.Family
	// joined gets a value with the first registration.
	joined chan struct{}
	// stays are the calls of stay, one for each session.
	stays sync.WaitGroup

	mu      sync.Mutex
	member  recipes.Member      // guarded by mu
	present *recipes.Membership // guarded by mu; the newest one, nil before the first
	// told is the health that others were told. guarded by mu
	told recipes.Health
	// failed is why the newest attempt to register has failed. guarded by mu
	failed error
}

// run registers the instance and runs the program.
func (r *registration) run(ctx context.Context, command []string) error {
	r.out.leaveAside()
	cl, err := r.target.client(client.Config{Endpoints: r.target.endpoints})
	if err != nil {
		return err
	}
	defer func() { _ = cl.Close() }() // always nil
	registrar, err := client.NewRegistrar(cl, client.RegistrarOptions{
		Session: client.SessionOptions{
			Timeout: r.flags.timeout, Labels: map[string]string{"holdfast": "register"},
		},
		Register: r.join,
	})
	if err != nil {
		return usageError{err}
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	defer r.stays.Wait()
	defer all.Wait() // the registrar has closed the session then
	defer stop()
	ended := make(chan error, 1)
	all.Go(func() {
		failed := registrar.Run(keeping)
		ended <- failed
		if keeping.Err() == nil {
			r.out.complain("holdfast: %s is not registered any more: %s\n", r.path, oneLine(failed))
		}
	})
	if err := r.await(ctx, ended); err != nil {
		return err
	}
	if r.flags.check != "" {
		all.Go(func() { r.checks(keeping) })
	}
	return r.program(ctx, command)
}

// join registers the instance in a new session.
func (r *registration) join(ctx context.Context, e client.Establishment) error {
	if e.Err != nil {
		r.out.complain("holdfast: %s is registered again: %s\n", r.path, oneLine(e.Err))
	}
	present, err := r.enter(ctx, e.Session)
	if err == nil {
		r.stays.Go(func() { r.stay(context.WithoutCancel(ctx), e.Session, present) })
	}
	return err
}

// enter makes the instance's entry.
func (r *registration) enter(ctx context.Context, s *client.Session) (*recipes.Membership, error) {
	r.mu.Lock()
	m := r.member
	r.mu.Unlock()
	present, err := recipes.NewGroup(s.Tree(), r.path).Join(ctx, s, m)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed = err; err != nil {
		return nil, err
	}
	r.present, r.told = present, m.Health
	select {
	case r.joined <- struct{}{}:
	default:
	}
	return present, nil
}

// stay registers the instance again when somebody has removed its entry, as long as the session lives.
func (r *registration) stay(ctx context.Context, s *client.Session, present *recipes.Membership) {
	for said := false; s.Err() == nil; {
		<-present.Done()
		if !errors.Is(present.Err(), recipes.ErrBroken) {
			return
		}
		again, err := limited(ctx, r.target, func(ctx context.Context) (*recipes.Membership, error) {
			return r.enter(ctx, s)
		})
		switch {
		case err == nil:
			present, said = again, false
			r.out.complain("holdfast: %s was removed by somebody else, and is registered again\n", present.Path())
		case !said && s.Err() == nil:
			said = true
			r.out.complain("holdfast: %s was removed by somebody else: %s\n", present.Path(), oneLine(err))
		}
		select {
		case <-time.After(againAfter): // whoever removes it again and again is not raced
		case <-s.Done():
		}
	}
}

// await waits for the first registration.
func (r *registration) await(ctx context.Context, ended <-chan error) error {
	late := time.NewTimer(r.flags.wait)
	defer late.Stop()
	select {
	case <-r.joined:
		return nil
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		r.mu.Lock()
		defer r.mu.Unlock()
		return fmt.Errorf("%s: not registered within --wait %v: %w", r.path, r.flags.wait,
			cmp.Or(r.failed, client.ErrUnreachable))
	}
}

// checks keeps the health of the instance up to date.
func (r *registration) checks(ctx context.Context) {
	next := time.NewTicker(r.flags.every)
	defer next.Stop()
	for {
		checking, cancel := context.WithTimeout(ctx, r.flags.every)
		health := recipes.Passing
		if err := r.family.Check(checking, r.flags.check, os.Environ()); err != nil {
			health = recipes.Critical
		}
		cancel()
		if ctx.Err() == nil {
			r.set(ctx, health)
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
	}
}

// set tells others of the health. When that fails, the next check tells it again.
func (r *registration) set(ctx context.Context, health recipes.Health) {
	r.mu.Lock()
	r.member.Health = health // a new session begins with it
	m, present, told := r.member, r.present, r.told
	r.mu.Unlock()
	if told == health {
		return
	}
	_, err := limited(ctx, r.target, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, present.Set(ctx, m)
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && present == r.present {
		r.told = health
	}
}

// program runs the program.
func (r *registration) program(ctx context.Context, command []string) error {
	r.mu.Lock()
	path := r.present.Path()
	r.mu.Unlock()
	is, err := r.family.Run(ctx, child.Options{
		Command: command[0], Args: command[1:], Env: append(os.Environ(), memberVariable+"="+path), Stdin: r.stdin,
		Stdout: r.out.stdout, Stderr: r.out.stderr, Hold: always{}, OnLost: child.Continue,
		Say: func(what string) { r.out.complain("holdfast: %s: %s\n", path, escaped(what)) },
	})
	return r.programEnd(path, is, err)
}

// always is the hold of a program that runs on without its registration.
type always struct{}

// Context never ends.
func (always) Context() context.Context { return context.Background() }

// SafeUntil is always later.
func (always) SafeUntil() time.Time { return time.Now().Add(time.Hour) }
