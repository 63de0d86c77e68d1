// Package cli is what the commands of holdfast share: how a command is written, and how it reaches the cluster, prints
// results, reports errors and ends.
//
// # How a command is written
//
// Each group of commands is a package beside this one, whose New returns its commands. A command is one file with three
// parts: a struct of its flags, a constructor that describes the command, and a run function that does the work.
//
//	// thawFlags are the flags of "cluster thaw".
//	type thawFlags struct{ reason string }
//
//	func newThaw(env *cli.Env) *cobra.Command {
//		var f thawFlags
//		cmd := &cobra.Command{
//			Use: "thaw", Short: "End a freeze", Args: cli.NoArgs,
//			RunE: cli.Run(env, &f, runThaw),
//		}
//		cmd.Flags().StringVar(&f.reason, "reason", "", "reason for the audit log")
//		return cmd
//	}
//
//	func runThaw(ctx context.Context, env *cli.Env, f *thawFlags, _ []string) error {
//		return env.Cluster.Call(ctx, func(ctx context.Context, c *client.Client) error {
//			if err := c.Thaw(ctx, f.reason); err != nil {
//				return err
//			}
//			return env.Out.Print(thawView{Frozen: false}, func() string { return "thawed" })
//		})
//	}
//
// A command without flags has [NoFlags]. A command that prints has one value for JSON and one text for people, and both
// go through [Printer.Print]. Arguments that other machines wrote go through [Escape] before a terminal shows them.
//
// # Errors
//
// A command returns its error. [Main] prints the error on one line, then a line with the user's next step, and returns
// the exit code. [Usage] makes an error about the command line. [WithHint] adds the next step to an error that only its
// command understands; hints.go has the table of next steps for all other errors.
//
// # Adding a command
//
// Write its file, add its constructor to New of its group, and add its row to docs/cli.md: a test names each command
// that docs/cli.md does not have.
package cli
