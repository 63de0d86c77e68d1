package cli

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Env is what a command gets from its surroundings.
type Env struct {
	Stdin   io.Reader
	Out     *Printer
	Cluster *Cluster
	// Environ has the environment variables, in the form of [os.Environ].
	Environ []string

	// running is set once a command runs. Before then cobra's own errors are about usage.
	running bool
}

// NewEnv returns the surroundings of a command that uses these streams and the variables of the process.
func NewEnv(stdin io.Reader, stdout, stderr io.Writer) *Env {
	return &Env{
		Stdin: stdin, Cluster: &Cluster{}, Environ: os.Environ(),
		Out: &Printer{Stdout: stdout, Stderr: stderr, Columns: columnsOf(stdout), terminal: IsTerminal(stdout)},
	}
}

// NoFlags are the flags of a command that has none.
type NoFlags struct{}

// Run returns the RunE of a command: it calls run with the values of the command's flags and its arguments.
func Run[F any](env *Env, f *F, run func(ctx context.Context, env *Env, f *F, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		env.running = true
		return run(cmd.Context(), env, f, args)
	}
}
