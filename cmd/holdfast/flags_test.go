package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
)

// visitFlags calls f for each flag of each command of a new program.
func visitFlags(f func(cmd *cobra.Command, flag *pflag.Flag)) {
	env := cli.NewEnv(strings.NewReader(""), io.Discard, io.Discard)
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		own := func(flag *pflag.Flag) { f(cmd, flag) }
		cmd.PersistentFlags().VisitAll(own)
		cmd.Flags().VisitAll(own)
		for _, below := range cmd.Commands() {
			visit(below)
		}
	}
	visit(cli.Configure(env, root(env)))
}

// Each command runs with the defaults in its help. Two commands that register a flag on one variable with different
// defaults would both run with the second default.
func TestDefaultsAreThoseThatHelpShows(t *testing.T) {
	inWords := map[string]string{
		"wait": "for ever", "grace-period": "a sixth of the timeout", "id": "HOST:PROCESS", "version": "any", "bytes": "none",
		"entries": "none", "soft-bytes": "none", "soft-entries": "none",
	}
	flags := 0
	visitFlags(func(cmd *cobra.Command, flag *pflag.Flag) {
		flags++
		if has := flag.Value.String(); has != flag.DefValue && inWords[flag.Name] != flag.DefValue {
			t.Errorf("%s --%s: the help shows %q, and the command runs with %q", cmd.CommandPath(), flag.Name,
				flag.DefValue, has)
		}
	})
	if flags < 100 {
		t.Errorf("visited %d flags, want all", flags)
	}
}

// Each flag that refuses a value describes the accepted values, in other words than Go's parsers.
func TestRefusalsDescribeAcceptedValues(t *testing.T) {
	refusals := 0
	visitFlags(func(cmd *cobra.Command, flag *pflag.Flag) {
		err := flag.Value.Set("x!")
		if err == nil {
			return
		}
		refusals++
		r, ok := arg.Refused(cmd.Flags().Set(flag.Name, "x!"))
		if cmd.Flags().Lookup(flag.Name) == nil {
			r, ok = arg.Refused(cmd.PersistentFlags().Set(flag.Name, "x!"))
		}
		for _, parser := range []string{"invalid", "parse", "strconv", "syntax", "time:"} {
			if !ok || strings.Contains(r.Want, parser) {
				t.Errorf("%s --%s x!: want %s", cmd.CommandPath(), flag.Name, r.Want)
			}
		}
	})
	if refusals < 50 {
		t.Errorf("%d flags refused a value, want all that read one", refusals)
	}
}
