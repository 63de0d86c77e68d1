// Package arg reads flags and arguments for both programs. Its refusals name the flag or argument, the value and the
// accepted values, in place of the words of Go's parsers.
package arg

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/session"
)

// Command checks the arguments of a command that only holds other commands: an argument is then an unknown command. The
// error suggests commands with a similar name.
func Command(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.SuggestionsMinimumDistance == 0 {
		cmd.SuggestionsMinimumDistance = 2 // cobra's own
	}
	var near []string
	for _, name := range cmd.SuggestionsFor(args[0]) {
		near = append(near, strconv.Quote(cmd.CommandPath()+" "+name))
	}
	err := fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
	if len(near) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
	}
	return err
}

// Flag returns the refusal of a flag in the place of err. Of a command that holds others it is that of the command
// which was named before the flag and does not exist: the flag is that command's.
func Flag(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() {
		return cmp.Or(Command(cmd, cmd.Flags().Args()), err)
	}
	return err
}

// None checks the arguments of commands that take none.
func None(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q accepts no arguments, not %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// One returns the check of commands that take one argument; what names it, such as "ID".
func One(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%q accepts one %s, not %d arguments", cmd.CommandPath(), what, len(args))
		}
		return nil
	}
}

// Two returns the check of commands that take two arguments, with these names.
func Two(first, second string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 {
			return fmt.Errorf("%q accepts %s and %s, not %d arguments", cmd.CommandPath(), first, second, len(args))
		}
		return nil
	}
}

// Some returns the check of commands that take one or more arguments; what names them, such as "ID".
func Some(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%q accepts one %s or more, not 0 arguments", cmd.CommandPath(), what)
		}
		return nil
	}
}

// Completion adds the command that writes completions for shells, and makes it refuse unknown shells: cobra's own
// command prints its help for them and succeeds. Call it after all other commands were added and the output was set.
func Completion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		var shells []string
		for _, shell := range cmd.Commands() {
			shells = append(shells, shell.Name())
		}
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			given := "none was given"
			if len(args) > 0 {
				given = fmt.Sprintf("not %q", args[0])
			}
			return fmt.Errorf("%q takes the name of a shell, %s: %s", cmd.CommandPath(), strings.Join(shells, ", "),
				given)
		}
	}
}

// HelpColumns is the largest width of a program's help in a terminal.
const HelpColumns = 100

// WrapHelp wraps the flags in the help of root, and of all commands below it, at [HelpColumns]. Other text of the help
// stays as it is written.
func WrapHelp(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages",
		".FlagUsagesWrapped "+strconv.Itoa(HelpColumns)))
}

// Refusal is a value that a flag refused.
type Refusal struct {
	// Flag is the flag's name with hyphens, Given the refused value.
	Flag, Given string
	// Want describes the values that the flag accepts.
	Want string
}

// Refused returns the refusal in an error of flag parsing; false if the error is another.
func Refused(err error) (Refusal, bool) {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return Refusal{}, false
	}
	flag := invalid.GetFlag()
	want := invalid.Unwrap().Error()
	if form, library := libraryForms()[flag.Value.Type()]; library {
		want = form
	}
	return Refusal{Flag: "--" + flag.Name, Given: invalid.GetValue(), Want: want}, true
}

// libraryForms describes the accepted values of pflag's own types of flags, for the types that the programs use and
// that can refuse a value.
func libraryForms() map[string]string {
	return map[string]string{
		"bool":        "true or false",
		"stringSlice": "words with commas between, as in a,b",
		"uintSlice":   "whole numbers with commas between, as in 2,3",
	}
}

// Whole returns the value of a flag that takes a whole number from lo to hi and stores it in at. lo is not negative.
func Whole[T int | uint8 | uint32 | uint64](at *T, byDefault, lo, hi T) pflag.Value {
	*at = byDefault
	return &whole[T]{at: at, lo: lo, hi: hi}
}

type whole[T int | uint8 | uint32 | uint64] struct {
	at     *T
	lo, hi T
}

// Set reads a number in Go's notation: 16, 0x10, 1_000.
func (w *whole[T]) Set(s string) error {
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil || v < uint64(w.lo) || v > uint64(w.hi) {
		return fmt.Errorf("a whole number, %d to %d", w.lo, w.hi)
	}
	*w.at = T(v)
	return nil
}

// String is the inverse of Set.
func (w *whole[T]) String() string { return fmt.Sprint(*w.at) }

// Type names the kind of value in the help.
func (w *whole[T]) Type() string { return "number" }

// Positive returns the value of a flag that takes a duration above 0 and stores it in at. limit is the largest
// duration; 0 is no bound.
func Positive(at *time.Duration, byDefault, limit time.Duration) pflag.Value {
	want := "a positive duration with a unit, such as 500ms, 2s or 1m"
	if limit > 0 {
		want += ", at most " + session.FormatDuration(limit)
	}
	*at = byDefault
	return &duration{at: at, want: want, ok: func(d time.Duration) bool { return d > 0 && (limit == 0 || d <= limit) }}
}

// AtLeast returns the value of a flag that takes a duration of minimum or more and stores it in at.
func AtLeast(at *time.Duration, byDefault, minimum time.Duration) pflag.Value {
	*at = byDefault
	return &duration{
		at: at, want: "a duration of at least " + session.FormatDuration(minimum) + ", with a unit, such as 500ms, 2s or 1m",
		ok: func(d time.Duration) bool { return d >= minimum },
	}
}

// NotNegative returns the value of a flag that takes a duration of 0 or more and stores it in at.
func NotNegative(at *time.Duration, byDefault time.Duration) pflag.Value {
	*at = byDefault
	return &duration{
		at: at, want: "a duration that is not negative, with a unit, such as 500ms, 2s or 1m",
		ok: func(d time.Duration) bool { return d >= 0 },
	}
}

type duration struct {
	at   *time.Duration
	want string
	ok   func(time.Duration) bool
}

// Set reads a duration with a unit.
func (d *duration) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil || !d.ok(v) {
		return errors.New(d.want)
	}
	*d.at = v
	return nil
}

// String is the inverse of Set. It writes 0 without a unit: pflag's help then shows no default.
func (d *duration) String() string {
	if *d.at == 0 {
		return "0"
	}
	return session.FormatDuration(*d.at)
}

// Type names the kind of value in the help.
func (d *duration) Type() string { return "duration" }
