package arg

import (
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// values are the values of parsed flags.
type values struct {
	count        uint64
	owner        uint8
	timeout, age time.Duration
}

func parse(args ...string) (values, error) {
	var v values
	var on bool
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Var(Whole(&v.count, 1, 1, math.MaxUint64), "count", "")
	flags.Var(Whole(&v.owner, 0, 0, 254), "owner", "")
	flags.Var(Positive(&v.timeout, 10*time.Second, 24*time.Hour), "timeout", "")
	flags.Var(NotNegative(&v.age, 0), "age", "")
	flags.BoolVar(&on, "on", false, "")
	flags.UintSlice("spares", nil, "")
	flags.StringSlice("endpoints", nil, "")
	err := flags.Parse(args)
	return v, err
}

func TestValuesAreRead(t *testing.T) {
	for args, want := range map[string]values{
		"": {1, 0, 10 * time.Second, 0},
		"--count 18446744073709551615 --owner 254 --timeout 24h --age 1ns": {math.MaxUint64, 254, 24 * time.Hour, 1},
		"--count 0x10 --owner 0 --timeout 1ns --age 0":                     {16, 0, 1, 0},
	} {
		if got, err := parse(strings.Fields(args)...); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", args, got, err, want)
		}
	}
}

// Each refusal names the flag, the value, and the range or form, in other words than Go's parsers.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		arg  string
		want Refusal
	}{
		{"--count=0", Refusal{"--count", "0", "a whole number, 1 to 18446744073709551615"}},
		{
			"--count=18446744073709551616",
			Refusal{"--count", "18446744073709551616", "a whole number, 1 to 18446744073709551615"},
		},
		{"--owner=300", Refusal{"--owner", "300", "a whole number, 0 to 254"}},
		{"--owner=-3", Refusal{"--owner", "-3", "a whole number, 0 to 254"}},
		{"--owner=one", Refusal{"--owner", "one", "a whole number, 0 to 254"}},
		{"--timeout=5", Refusal{
			"--timeout", "5", "a positive duration with a unit, such as 500ms, 2s or 1m, at most 24h",
		}},
		{"--timeout=0s", Refusal{
			"--timeout", "0s", "a positive duration with a unit, such as 500ms, 2s or 1m, at most 24h",
		}},
		{"--timeout=24h1ns", Refusal{
			"--timeout", "24h1ns", "a positive duration with a unit, such as 500ms, 2s or 1m, at most 24h",
		}},
		{"--age=-1s", Refusal{"--age", "-1s", "a duration that is not negative, with a unit, such as 500ms, 2s or 1m"}},
		{"--on=maybe", Refusal{"--on", "maybe", "true or false"}},
		{"--spares=2,x", Refusal{"--spares", "2,x", "whole numbers with commas between, as in 2,3"}},
		{`--endpoints=a"b`, Refusal{"--endpoints", `a"b`, "words with commas between, as in a,b"}},
	} {
		_, err := parse(tt.arg)
		if got, ok := Refused(err); !ok || got != tt.want {
			t.Errorf("%s: got %+v, %t, want %+v", tt.arg, got, ok, tt.want)
		}
	}
	if _, err := parse("--nosuch"); err == nil {
		t.Error("an unknown flag was taken")
	} else if got, ok := Refused(err); ok {
		t.Errorf("an unknown flag is a refused value: %+v", got)
	}
}

// Help shows a default the way a user writes it, and no default of 0.
func TestDefaultsInHelp(t *testing.T) {
	for byDefault, want := range map[time.Duration]string{
		0: "duration", time.Minute: "duration    (default 1m)", 90 * time.Second: "duration    (default 1m30s)",
		24 * time.Hour: "duration    (default 24h)",
	} {
		var d time.Duration
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		flags.Var(NotNegative(&d, byDefault), "d", "")
		if got := strings.TrimSpace(flags.FlagUsages()); !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want %q at the end", got, want)
		}
	}
}

// WrapHelp wraps the flags of a command below root too, and loses no words.
func TestHelpIsWrapped(t *testing.T) {
	words := strings.Repeat("word ", 60)
	root, below := &cobra.Command{Use: "top"}, &cobra.Command{Use: "below", Run: func(*cobra.Command, []string) {}}
	root.PersistentFlags().String("everywhere", "", words)
	below.Flags().String("here", "", words)
	root.AddCommand(below)
	WrapHelp(root)
	help := below.UsageString()
	for line := range strings.Lines(help) {
		if len(line) > HelpColumns+1 {
			t.Errorf("a line has %d characters: %s", len(line)-1, line)
		}
	}
	if got := strings.Count(help, "word"); got != 120 {
		t.Errorf("%d words, want 120:\n%s", got, help)
	}
}

func TestNone(t *testing.T) {
	cmd := &cobra.Command{Use: "run"}
	if err := None(cmd, nil); err != nil {
		t.Error(err)
	}
	if err := None(cmd, []string{"extra"}); err == nil || err.Error() != `"run" accepts no arguments, not "extra"` {
		t.Errorf("got %v", err)
	}
}
