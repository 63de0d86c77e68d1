package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/cmd/internal/child"
	"holdfast/tree"
)

const (
	// servicesPath is the entry above the services that are given by name.
	servicesPath = "/services"
	// memberVariable is the environment variable with the path of the instance's entry.
	memberVariable = "HOLDFAST_MEMBER"
	// retryInterval is the time between two attempts to register an instance whose entry was removed.
	retryInterval = time.Second
)

// registerFlags are the flags of "register".
type registerFlags struct {
	address, id, check string
	labels             []string

	timeout, wait, checkInterval time.Duration
}

func newRegister(env *cli.Env) *cobra.Command {
	var f registerFlags
	cmd := &cobra.Command{
		Use: "register SERVICE -- COMMAND [ARGUMENT...]", Short: "Run a program as a registered instance of a service",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.ArgsLenAtDash() != 1 || len(args) < 2:
				return cli.Usage("%q takes SERVICE -- COMMAND [ARGUMENT...]", cmd.CommandPath())
			case cmd.Flags().Changed("check-interval") && f.check == "":
				return cli.Usage("--check-interval is for --check")
			}
			return nil
		},
		Long: `Register an instance of a service, run its program, and deregister the instance when the program
ends. The registration belongs to a session. When the session expires, because the cluster was
unreachable, or when the instance's entry is removed, the command registers the instance again. The
program runs on.

SERVICE means the entry ` + servicesPath + `/SERVICE of the tree, unless it begins with a slash. An
instance is an entry below it, whose data has address, labels and health in JSON. The program has
its path in ` + memberVariable + `.

--check is a shell command. The instance is passing after the command has exited with 0, and
critical before the first check, after another exit code, and when a check takes longer than
--check-interval.

Signals and exit codes are as in "holdfast lock".`,
		Example: `  holdfast register web --address 10.0.0.7:80 --label zone=a -- ./server
  holdfast register web --address 10.0.0.7:80 --check 'curl -sf localhost/health' \
    --check-interval 5s -- ./server`,
		RunE: cli.Run(env, &f, runRegister),
	}
	cli.ProgramFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.address, "address", "", "address of the instance")
	flags.StringVar(&f.id, "id", "", "id of the instance, unique in the service")
	flags.Lookup("id").DefValue = "HOST:PROCESS"
	flags.StringArrayVar(&f.labels, "label", nil, cli.NewLabelHelp)
	cli.AddTimeoutFlag(cmd, &f.timeout, cli.SessionTimeout)
	flags.Var(arg.Positive(&f.wait, time.Minute, 0), "wait",
		"how long to wait for the registration, for example until a former instance with the same id expires")
	flags.StringVar(&f.check, "check", "", "shell command that exits with 0 if the instance is healthy")
	flags.Var(arg.Positive(&f.checkInterval, 10*time.Second, 0), "check-interval",
		"time between two checks, and the time limit of each")
	return cmd
}

func runRegister(ctx context.Context, env *cli.Env, f *registerFlags, args []string) error {
	path, err := pathOf(servicesPath, args[0])
	if err != nil {
		return err
	}
	r, err := f.registration(env, path)
	if err != nil {
		return err
	}
	return r.run(ctx, args[1:])
}

// registration returns the registration that the flags describe.
func (f *registerFlags) registration(env *cli.Env, path string) (*registration, error) {
	labels, err := cli.ParseLabels(f.labels)
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
		return nil, cli.Usage("--id %q: want a name without a slash", m.ID)
	}
	if _, err := pathOf(path, m.ID); err != nil {
		return nil, err
	}
	return &registration{env: env, flags: f, path: path, member: m, joined: make(chan struct{}, 1)}, nil
}

// registration is one run of "register".
type registration struct {
	env    *cli.Env
	flags  *registerFlags
	path   string
	family child.Family
	// joined gets a value with the first registration.
	joined chan struct{}
	// watchers are the calls of reregister, one for each session.
	watchers sync.WaitGroup

	mu      sync.Mutex
	member  recipes.Member      // guarded by mu
	present *recipes.Membership // guarded by mu; the newest membership, nil before the first
	// published is the health in the instance's entry. Guarded by mu.
	published recipes.Health
	// failed is why the newest attempt to register has failed. guarded by mu
	failed error
}

// run registers the instance and runs the program.
func (r *registration) run(ctx context.Context, command []string) error {
	r.env.Out.BufferStderr()
	cl, err := r.env.Cluster.NewClient(client.Config{Endpoints: r.env.Cluster.Endpoints})
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
		return cli.Usage("%w", err)
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	defer r.watchers.Wait()
	defer all.Wait() // the registrar has closed the session then
	defer stop()
	ended := make(chan error, 1)
	all.Go(func() {
		failed := registrar.Run(keeping)
		ended <- failed
		if keeping.Err() == nil {
			r.env.Out.Messagef("holdfast: %s is no longer registered: %s\n", r.path, cli.OneLine(failed))
		}
	})
	if err := r.await(ctx, ended); err != nil {
		return err
	}
	if r.flags.check != "" {
		all.Go(func() { r.checks(keeping) })
	}
	return r.runProgram(ctx, command)
}

// join registers the instance in a new session.
func (r *registration) join(ctx context.Context, e client.Establishment) error {
	if e.Err != nil {
		r.env.Out.Messagef("holdfast: %s is registered again: %s\n", r.path, cli.OneLine(e.Err))
	}
	present, err := r.register(ctx, e.Session)
	if err == nil {
		r.watchers.Go(func() { r.reregister(context.WithoutCancel(ctx), e.Session, present) })
	}
	return err
}

// register creates the instance's entry.
func (r *registration) register(ctx context.Context, s *client.Session) (*recipes.Membership, error) {
	r.mu.Lock()
	m := r.member
	r.mu.Unlock()
	present, err := recipes.NewGroup(s.Tree(), r.path).Join(ctx, s, m)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed = err; err != nil {
		return nil, err
	}
	r.present, r.published = present, m.Health
	select {
	case r.joined <- struct{}{}:
	default:
	}
	return present, nil
}

// reregister registers the instance again when its entry is removed, as long as the session lives.
func (r *registration) reregister(ctx context.Context, s *client.Session, present *recipes.Membership) {
	for reported := false; s.Err() == nil; {
		<-present.Done()
		if !errors.Is(present.Err(), recipes.ErrBroken) {
			return
		}
		again, err := cli.Timed(ctx, r.env.Cluster, func(ctx context.Context) (*recipes.Membership, error) {
			return r.register(ctx, s)
		})
		switch {
		case err == nil:
			present, reported = again, false
			r.env.Out.Messagef("holdfast: %s was removed by another client, and is registered again\n", present.Path())
		case !reported && s.Err() == nil:
			reported = true
			r.env.Out.Messagef("holdfast: %s was removed by another client: %s\n", present.Path(), cli.OneLine(err))
		}
		select {
		case <-time.After(retryInterval): // no race with a client that removes the entry again and again
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

// checks runs the health check, and publishes its result.
func (r *registration) checks(ctx context.Context) {
	next := time.NewTicker(r.flags.checkInterval)
	defer next.Stop()
	for {
		checking, cancel := context.WithTimeout(ctx, r.flags.checkInterval)
		health := recipes.Passing
		if err := r.family.Check(checking, r.flags.check, r.env.Environ); err != nil {
			health = recipes.Critical
		}
		cancel()
		if ctx.Err() == nil {
			r.publish(ctx, health)
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
	}
}

// publish writes the health into the instance's entry. When the write fails, the next check repeats it.
func (r *registration) publish(ctx context.Context, health recipes.Health) {
	r.mu.Lock()
	r.member.Health = health // a new session starts with it
	m, present, published := r.member, r.present, r.published
	r.mu.Unlock()
	if published == health {
		return
	}
	_, err := cli.Timed(ctx, r.env.Cluster, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, present.Set(ctx, m)
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && present == r.present {
		r.published = health
	}
}

// runProgram runs the program.
func (r *registration) runProgram(ctx context.Context, command []string) error {
	r.mu.Lock()
	path := r.present.Path()
	r.mu.Unlock()
	ended, err := r.family.Run(ctx, child.Options{
		Command: command[0], Args: command[1:], Env: append(slices.Clone(r.env.Environ), memberVariable+"="+path),
		Stdin:  r.env.Stdin,
		Stdout: r.env.Out.Stdout, Stderr: r.env.Out.Stderr, Hold: always{}, OnLost: child.Continue,
		Say: func(what string) { r.env.Out.Messagef("holdfast: %s: %s\n", path, cli.Escape(what)) },
	})
	return programError(r.env, path, ended, err)
}

// always is the hold of a program that runs on without its registration.
type always struct{}

// Context never ends.
func (always) Context() context.Context { return context.Background() }

// SafeUntil is always later.
func (always) SafeUntil() time.Time { return time.Now().Add(time.Hour) }
