package config

import (
	"errors"
	"testing"

	"github.com/spf13/pflag"
)

// --join needs no value, and takes one. No other setting takes the place of its argument.
func TestJoinIsAFlag(t *testing.T) {
	for arg, want := range map[string]bool{"": false, "--join": true, "--join=on": true, "--join=off": false} {
		fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
		RegisterFlags(fs)
		args := []string{"--node=4", "--data-dir=d", "--peers=1=n1,4=n4", "--auth=none"}
		if arg != "" {
			args = append(args, arg)
		}
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		c, err := Load(fs, nil)
		if err != nil || c.Raft.Join != want || len(c.Peers) != 2 {
			t.Errorf("%q: join is %v, %v, want %v", arg, c.Raft.Join, err, want)
		}
	}
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	RegisterFlags(fs)
	if err := fs.Parse([]string{"--node=4", "--data-dir=d", "--peers=4=n4", "--auth=none", "--join=yes"}); err != nil {
		t.Fatal(err)
	}
	_, err := Load(fs, nil)
	if e, ok := errors.AsType[*SettingError](err); !ok || e.Setting != "join" && e.Setting != "--join" {
		t.Errorf("--join=yes: %v", err)
	}
}
