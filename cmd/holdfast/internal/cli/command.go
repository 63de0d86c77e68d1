package cli

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/tree"
)

// Group returns a command that only holds other commands.
func Group(name, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use: name, Short: short, Annotations: map[string]string{groupAnnotation: name},
		Args: func(cmd *cobra.Command, args []string) error {
			if slices.ContainsFunc(args, isToken) {
				return Usage(tokenAsID)
			}
			return arg.Command(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return Usage("%q needs a command", cmd.CommandPath()) },
	}
	g.AddCommand(commands...)
	return g
}

// CompleteWords registers the values that shells offer for a flag. It panics if cmd has no such flag.
func CompleteWords(cmd *cobra.Command, flag string, words ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err)
	}
}

// refusedFlag turns a refused flag value into a usage error in this program's words.
func refusedFlag(err error) error {
	if r, ok := arg.Refused(err); ok {
		return Usage("%s %q: want %s", r.Flag, r.Given, r.Want)
	}
	return err
}

// ProgramFlags makes a command that runs a program explain a flag that the command does not have: the flag may be the
// program's.
func ProgramFlags(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(of *cobra.Command, err error) error {
		refused := refusedFlag(err)
		if _, explained := errors.AsType[UsageError](refused); explained || of != cmd { // its subcommands run no program
			return refused
		}
		return Usage("%w: the program and its flags come after \"--\"", err)
	})
}

// NoArgs checks the arguments of commands that take none. Its error does not repeat a token.
func NoArgs(cmd *cobra.Command, args []string) error {
	switch {
	case !slices.ContainsFunc(args, isToken):
		return arg.None(cmd, args)
	case cmd.Flags().Lookup("token-file") != nil:
		return Usage("%q takes a token with --token-file, not as an argument", cmd.CommandPath())
	default:
		return Usage("%q accepts no arguments, not a token", cmd.CommandPath())
	}
}

// OnePath checks the arguments of commands that take a path of the tree.
func OnePath(cmd *cobra.Command, args []string) error {
	if err := arg.One("PATH")(cmd, args); err != nil {
		return err
	}
	return CheckPath(args[0])
}

// CheckPath returns a usage error unless an argument is a path of the tree.
func CheckPath(path string) error {
	if err := tree.CheckPath(path); err != nil {
		return Usage("%w", err)
	}
	return nil
}

// ParseID reads a session id given as an argument. Its error does not repeat a token.
func ParseID(argument string) (session.ID, error) {
	if isToken(argument) {
		return 0, Usage(tokenAsID)
	}
	id, err := session.ParseID(argument)
	if err != nil {
		return 0, Usage("ID %q: %w", argument, err)
	}
	return id, nil
}

// RefuseToken returns a usage error when an argument for an id is a token. The error does not repeat the token.
func RefuseToken(argument string) error {
	if isToken(argument) {
		return Usage(tokenAsID)
	}
	return nil
}

// WithDigest adds the flag --digest to commands and to their subcommands.
func WithDigest(env *Env, commands ...*cobra.Command) []*cobra.Command {
	for _, cmd := range commands {
		if cmd.HasSubCommands() {
			WithDigest(env, cmd.Commands()...)
		}
		if cmd.Runnable() && !isGroup(cmd) {
			env.Cluster.AddDigestFlag(cmd)
		}
	}
	return commands
}

// groupAnnotation marks the commands of [Group].
const groupAnnotation = "group"

func isGroup(cmd *cobra.Command) bool { return cmd.Annotations[groupAnnotation] != "" }
