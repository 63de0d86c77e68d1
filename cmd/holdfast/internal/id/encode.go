package id

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/session/ids"
)

// encodeFlags are the flags of "id encode".
type encodeFlags struct {
	layout layoutFlags
	time   string
	// fields has the value of each field's flag; changed reports whether the user gave the flag.
	fields  map[string]*uint64
	changed func(flag string) bool
}

func newEncode(env *cli.Env) *cobra.Command {
	f := encodeFlags{fields: map[string]*uint64{}}
	cmd := &cobra.Command{
		Use: "encode", Short: "Make an id from its parts", Args: cli.NoArgs,
		Long: `Make an id from its parts. Parts without a flag are 0. The id is for reading logs and for tests:
nothing makes it unique.`,
		Example: `  holdfast id encode --node 1 --time 2026-11-21T12:00:00Z --counter 7
  holdfast id encode --layout snowflake --time 2022-06-28T16:07:40.105Z --datacenter 11 --worker 26`,
		RunE: cli.Run(env, &f, runEncode),
	}
	f.layout.register(cmd, ids.HoldfastLayout().Name())
	registerFields(cmd, f.fields)
	f.changed = cmd.Flags().Changed
	cmd.Flags().StringVar(&f.time, "time", "", "holdfast, snowflake: time, in place of --ms, as in 2026-11-21T12:00:00Z")
	cmd.MarkFlagsMutuallyExclusive("ms", "time")
	return cmd
}

func runEncode(_ context.Context, env *cli.Env, f *encodeFlags, _ []string) error {
	l, err := f.layout.layout()
	if err != nil {
		return err
	}
	given := f.given()
	if f.time != "" {
		if given["ms"], err = l.ms(f.time); err != nil {
			return err
		}
	}
	id, err := l.Encode(given)
	if err != nil {
		return flagError(err)
	}
	view, err := l.view(id)
	if err != nil {
		return err
	}
	return env.Out.Print([]idView{view}, func() string { return l.table([]idView{view}) })
}

// registerFields adds a flag for every field of every layout, and puts the address of its value into values. A flag
// takes each value that is valid in some layout; the layout that the user chose checks the value again.
func registerFields(cmd *cobra.Command, values map[string]*uint64) {
	snowflake, err := ids.SnowflakeLayout(time.Time{}, 1)
	if err != nil {
		panic(err) // 1 rollback bit is valid
	}
	widest, err := ids.SnowflakeLayout(time.Time{}, 0) // its sequence has the most bits
	if err != nil {
		panic(err) // 0 rollback bits are valid
	}
	meanings := map[string][]string{}
	lowest, highest := map[string]uint64{}, map[string]uint64{}
	for _, l := range []ids.Layout{ids.HoldfastLayout(), ids.ZooKeeperLayout(), snowflake, widest} {
		for _, f := range l.Fields() {
			meaning := l.Name() + ": " + f.Meaning
			if !slices.Contains(meanings[f.Name], meaning) {
				meanings[f.Name] = append(meanings[f.Name], meaning)
			}
			if lo, known := lowest[f.Name]; !known || f.Min < lo {
				lowest[f.Name] = f.Min
			}
			highest[f.Name] = max(highest[f.Name], f.Max)
		}
	}
	for name, of := range meanings {
		values[name] = new(uint64)
		cmd.Flags().Var(arg.Whole(values[name], 0, lowest[name], highest[name]), name, strings.Join(of, "; "))
	}
}

// given returns the fields that the user gave.
func (f *encodeFlags) given() map[string]uint64 {
	given := map[string]uint64{}
	for name, v := range f.fields {
		if f.changed(name) {
			given[name] = *v
		}
	}
	return given
}

// ms returns the milliseconds of the layout's clock at a time.
func (l layout) ms(at string) (uint64, error) {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return 0, cli.Usage("--time %q: want a time such as 2026-11-21T12:00:00Z", at)
	}
	ms, err := l.MS(t)
	return ms, flagError(err)
}
