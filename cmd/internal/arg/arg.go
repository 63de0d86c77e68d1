// Package arg is how both programs read flags and arguments: what is refused is named, with what is wanted in its
// place, and without the words of Go's parsers.
package arg

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/session"
)

// None is for commands that take no arguments.
func None(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q takes no arguments, not %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// One is for commands that take one argument, such as "ID" for a session's id.
func One(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%q takes one %s, not %d arguments", cmd.CommandPath(), what, len(args))
		}
		return nil
	}
}

// Some is for commands that take one argument of a kind or more.
func Some(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%q takes one %s or more, and was given none", cmd.CommandPath(), what)
		}
		return nil
	}
}

// Completion gives a program its command that writes completions for shells, and has it refuse what is no shell. The
// library's own command prints its help then and exits as if all were well. Call it once all other commands were added
// and the output was set.
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

// Refusal is a value that a flag refused.
type Refusal struct {
	// Flag is its name with hyphens, Given what was written.
	Flag, Given string
	// Want says what the flag takes.
	Want string
}

// Refused returns the refusal that a failed reading of a command line is; false when it failed for something else.
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

// libraryForms are what those values of package pflag take that both programs use and that can refuse something, by
// their types.
func libraryForms() map[string]string {
	return map[string]string{
		"bool":        "true or false",
		"stringSlice": "words with commas between, as in a,b",
		"uintSlice":   "whole numbers with commas between, as in 2,3",
	}
}

// Whole returns the value of a flag that is a whole number from lo to hi, which is kept in at. lo is not negative.
func Whole[T int | uint8 | uint32 | uint64](at *T, byDefault, lo, hi T) pflag.Value {
	*at = byDefault
	return &whole[T]{at: at, lo: lo, hi: hi}
}

type whole[T int | uint8 | uint32 | uint64] struct {
	at     *T
	lo, hi T
}

// Set reads what Go's source may hold: 16, 0x10, 1_000.
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

// Type is the kind of value, for people.
func (w *whole[T]) Type() string { return "number" }

// Positive returns the value of a flag that is a duration above 0, which is kept in at; most bounds it, unless that is
// 0.
func Positive(at *time.Duration, byDefault, most time.Duration) pflag.Value {
	want := "a positive duration with a unit, such as 500ms, 2s or 1m"
	if most > 0 {
		want += ", at most " + session.FormatDuration(most)
	}
	*at = byDefault
	return &duration{at: at, want: want, ok: func(d time.Duration) bool { return d > 0 && (most == 0 || d <= most) }}
}

// NotNegative returns the value of a flag that is a duration of 0 or more, which is kept in at.
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

// Set reads a duration with its unit.
func (d *duration) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil || !d.ok(v) {
		return errors.New(d.want)
	}
	*d.at = v
	return nil
}

// String is the inverse of Set; 0 has no unit, by which help knows that it is no default worth a word.
func (d *duration) String() string {
	if *d.at == 0 {
		return "0"
	}
	return session.FormatDuration(*d.at)
}

// Type is the kind of value, for people.
func (d *duration) Type() string { return "duration" }
