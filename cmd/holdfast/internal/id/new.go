package id

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/session/ids"
)

// maxNewIDs bounds --count: all ids are kept until they are printed.
const maxNewIDs = 100_000

// newFlags are the flags of "id new".
type newFlags struct {
	layoutFlags

	machine ids.Machine
	// derived reports that the machine's numbers come from the MAC address and the process id, not from the user.
	derived bool
	changed func(flag string) bool
	policy  string
	spares  []uint
	count   int
}

func newNew(env *cli.Env) *cobra.Command {
	var f newFlags
	cmd := &cobra.Command{
		Use: "new", Short: "Make snowflake ids locally, without a cluster", Args: cli.NoArgs,
		Long: `Make snowflake ids locally, without a cluster. They are unique as long as no other process makes ids
with the same datacenter and worker at the same time; the command writes these terms to the standard
error, or with -o json beside the ids. Without --datacenter and --worker the command derives both
numbers from the MAC address and the process id, as well-known Java libraries do. Derived numbers
are not guaranteed to be unique.

Only a cluster can make unique ids of the layouts holdfast and zookeeper, so this command refuses to
make them.`,
		Example: `  holdfast id new --datacenter 3 --worker 7
  holdfast id new --datacenter 3 --worker 7 --count 1000 --form base62 --policy wait`,
		RunE: cli.Run(env, &f, runNew),
	}
	f.register(cmd, "snowflake")
	f.changed = cmd.Flags().Changed
	flags := cmd.Flags()
	flags.Var(arg.Whole(&f.machine.Datacenter, 0, 0, ids.MaxMachine), "datacenter",
		fmt.Sprintf("high part of this machine's number, 0 to %d", ids.MaxMachine))
	flags.Var(arg.Whole(&f.machine.Worker, 0, 0, ids.MaxMachine), "worker",
		fmt.Sprintf("low part of this machine's number, 0 to %d", ids.MaxMachine))
	flags.StringVar(&f.policy, "policy", ids.Wait.String(),
		fmt.Sprintf("reaction when the clock is set back meanwhile, one of %v", ids.Policies()))
	flags.UintSliceVar(&f.spares, "spares", nil, "switch-worker: other worker numbers that only this machine uses")
	flags.Var(arg.Whole(&f.count, 1, 1, maxNewIDs), "count", fmt.Sprintf("number of ids, 1 to %d", maxNewIDs))
	cmd.MarkFlagsRequiredTogether("datacenter", "worker")
	policies := make([]string, 0, len(ids.Policies()))
	for _, p := range ids.Policies() {
		policies = append(policies, p.String())
	}
	cli.CompleteWords(cmd, "policy", policies...)
	return cmd
}

func runNew(ctx context.Context, env *cli.Env, f *newFlags, _ []string) error {
	f.derived = !f.changed("worker")
	made, l, err := f.make(ctx)
	if err != nil {
		return err
	}
	view := newView{
		IDs: make([]idView, 0, len(made)), Datacenter: f.machine.Datacenter, Worker: f.machine.Worker,
		Derived: f.derived, Terms: f.terms(),
	}
	for _, id := range made {
		one, err := l.view(id)
		if err != nil {
			return err
		}
		view.IDs = append(view.IDs, one)
	}
	if !env.Out.JSON() {
		env.Out.Messagef("%s\n", view.Terms)
	}
	return env.Out.Print(view, view.text)
}

// make makes the ids. It derives the machine's numbers if the user gave none.
func (f *newFlags) make(ctx context.Context) ([]uint64, layout, error) {
	l, err := f.layout()
	if err != nil {
		return nil, layout{}, err
	}
	switch l.Name() {
	case "holdfast":
		return nil, layout{}, cli.Usage(
			"--layout holdfast: only the cluster makes session ids unique: open a session with %q; this command makes "+
				"snowflakes only", "holdfast session open",
		)
	case "zookeeper":
		return nil, layout{}, cli.Usage(
			"--layout zookeeper: only a ZooKeeper server knows which ids it has given out: this command makes " +
				"snowflakes only",
		)
	}
	g, err := f.generator(l)
	if err != nil {
		return nil, layout{}, err
	}
	made := make([]uint64, 0, f.count)
	for range f.count {
		id, err := g.Next(ctx)
		if err == nil {
			err = context.Cause(ctx) // Next looks at ctx only when it has to wait
		}
		if err != nil {
			return nil, layout{}, fmt.Errorf("make ids: %w", err)
		}
		made = append(made, id)
	}
	return made, l, nil
}

func (f *newFlags) generator(l layout) (*ids.Snowflake, error) {
	policy, err := ids.ParsePolicy(f.policy)
	if err != nil {
		return nil, flagError(err)
	}
	if f.derived {
		if f.machine, err = deriveMachine(); err != nil {
			return nil, err
		}
	}
	spares := make([]uint64, 0, len(f.spares))
	for _, worker := range f.spares {
		spares = append(spares, uint64(worker))
	}
	g, err := ids.NewSnowflake(ids.SnowflakeConfig{
		Epoch: l.Epoch(), Machine: f.machine, Policy: policy, Spares: spares, RollbackBits: f.rollbackBits,
	})
	return g, flagError(err)
}

// deriveMachine derives the numbers from this machine's MAC address and this process id.
func deriveMachine() (ids.Machine, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return ids.Machine{}, fmt.Errorf("look for a MAC address: %w", err)
	}
	mac, err := ids.HardwareAddress(interfaces)
	if err != nil {
		return ids.Machine{}, cli.Usage("derive the machine's numbers: it has no MAC address: want --datacenter and --worker")
	}
	return ids.DeriveMachine(mac, os.Getpid())
}

// terms says under which conditions the ids are unique.
func (f *newFlags) terms() string {
	numbers := f.machine.String()
	if len(f.spares) > 0 {
		numbers += fmt.Sprintf(" and the spares %v", f.spares)
	}
	if f.derived {
		return "Unique only if no other process uses " + numbers + ". These numbers were derived from the MAC address " +
			"and the process id, which does not make them unique: --datacenter and --worker of a configuration can. " +
			"No run may start while the clock is behind the clock of an earlier run."
	}
	return "Unique as long as no other process uses " + numbers +
		" at the same time, and no run starts while the clock is behind the clock of an earlier run."
}

// newView is the output of "id new" in JSON.
type newView struct {
	IDs        []idView `json:"ids"`
	Datacenter uint64   `json:"datacenter"`
	Worker     uint64   `json:"worker"`
	Derived    bool     `json:"derived"`
	Terms      string   `json:"terms"`
}

// text returns the ids alone, one on each line, for scripts.
func (v newView) text() string {
	var lines []byte
	for i, id := range v.IDs {
		if i > 0 {
			lines = append(lines, '\n')
		}
		lines = append(lines, id.text...)
	}
	return string(lines)
}
