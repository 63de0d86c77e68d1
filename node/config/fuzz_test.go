package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/spf13/pflag"

	"holdfast/session"
	"holdfast/test/fuzz/bound"
)

// ofText is what text of a configuration may take: a comma of a YAML list is a node of its own, and each value that
// makes no sense a sentence about it.
func ofText() bound.Cost { return bound.Cost{PerByte: 2 << 10, Fixed: 1 << 20} }

// FuzzLoad gives a process any file, variables (one a line) and arguments (one a line). What is refused is refused by
// the name of a setting; what is taken is complete, is the same when it is written as a file and read again, and names
// ports, times and peers that a node can work with.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("node: 1\ndata_dir: d\npeers: 1=n1,2=n2,3=n3\n"), "HOLDFAST_STALL_TIMEOUT=3s\nPATH=/bin", "--min-timeout=9s")
	f.Add(
		[]byte(
			"node: 1\ndata_dir: d\npeers:\n- {node: 1, raft: 'a:1', peer: 'a:2', client: 'b:3'}\n- node: 2\n  raft: "+
				"'[::1]:4'\n",
		), "", "",
	)
	f.Add([]byte("nodes: 1\nstall_timeout: 2\nmin_timeout: 50s\nlog_level: loud\nlog_level: info\ncluster_id:\n"),
		"HOLDFAST_NODE=300", "--max-opens-per-second=300000")
	f.Add([]byte("a: &a [x, x, x, x]\nb: &b [*a, *a, *a, *a]\npeers: [*b, *b, *b, *b]\n"),
		"HOLDFAST_PEERS=1=[::1%1]:1:2@h:3", "--node=1")
	f.Add([]byte("[[[[[[[[[[[[[[[[[[[[[[[["), "HOLDFAST_CONFIG=elsewhere", "--")
	f.Add([]byte("--- !!map\n? [1]\n: 2\n<<: {node: 1}\n"), "HOLDFAST_X", "--stall-timeout")
	f.Add([]byte{}, "HOLDFAST_MAX_TIMEOUT=9223372036854775807ns\nHOLDFAST_MAX_SESSIONS=18446744073709551616",
		"--data-dir=\x00")
	path := filepath.Join(f.TempDir(), "node.yaml")
	f.Fuzz(func(t *testing.T, file []byte, variables, arguments string) {
		// The file is at path: any other path is the machine's.
		environ := slices.DeleteFunc(strings.Split(variables, "\n"), func(kv string) bool {
			return strings.HasPrefix(kv, configVariable+"=")
		})
		args := slices.DeleteFunc(strings.Split(arguments, "\n"), func(arg string) bool {
			return strings.HasPrefix(arg, "--"+configFlag)
		})
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		var c Config
		var err error
		ofText().Hold(t, len(file)+len(variables)+len(arguments), func() {
			c, err = loadFuzzed(path, environ, args...)
		})
		if err != nil {
			wantSettings(t, err)
			return
		}
		if again, err := c.Complete(); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("complete is %+v, %v\nand not %+v", again, err, c)
		}
		if self, ok := c.Self(); !ok || self.Node != c.Node || !c.Node.Valid() {
			t.Errorf("node %d is not one of %v", c.Node, c.Peers)
		}
		if got, err := c.Sessions.Limits().Negotiate(time.Second); err != nil || got < c.Sessions.MinTimeout ||
			got > c.Sessions.MaxTimeout {
			t.Errorf("limits %v make %v of a second: %v", c.Sessions.Limits(), got, err)
		}
		ofRaft := c.RaftConfig()
		ofRaft.LocalID = "1"
		if err := raft.ValidateConfig(ofRaft); err != nil {
			t.Errorf("%+v is no configuration of Raft's: %v", c, err)
		}
		c.DataDir = "d" // what a path may hold and a file's text may not
		if err := os.WriteFile(path, []byte(yamlOf(&c)), 0o600); err != nil {
			t.Fatal(err)
		}
		if again, err := loadFuzzed(path, nil); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("written and read again it is\n%+v, %v\nand not\n%+v", again, err, c)
		}
	})
}

// errFlags says that the arguments did not come as far as Load.
var errFlags = errors.New("arguments")

func loadFuzzed(path string, environ []string, args ...string) (Config, error) {
	flags := pflag.NewFlagSet("node", pflag.ContinueOnError)
	RegisterFlags(flags)
	if err := flags.Parse(args); err != nil {
		return Config{}, errFlags
	}
	return Load(flags, append(slices.Clone(environ), configVariable+"="+path))
}

// wantSettings fails unless each of the joined errors names a setting and says what it must be.
func wantSettings(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, errFlags) {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			wantSettings(t, one)
		}
		return
	}
	if setting, ok := errors.AsType[*SettingError](err); !ok || setting.Limit == "" ||
		!errors.Is(err, session.ErrInvalid) {
		t.Errorf("refused with %T %v, want a SettingError that says what is wanted", err, err)
	}
}

// yamlOf writes a configuration as a file would have it.
func yamlOf(c *Config) string {
	var b strings.Builder
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	for _, s := range settings() {
		if s.name == "peers" {
			b.WriteString("peers:\n")
			for _, p := range c.Peers {
				fmt.Fprintf(&b, "- {node: %d, raft: %s, peer: %s, client: %s}\n", p.Node, quote(p.Raft), quote(p.Peer),
					quote(p.Client))
			}
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n", s.name, quote(s.value(c).String()))
	}
	return b.String()
}

// FuzzParsePeers: peers that were read, and whose addresses pass, are written in a form that is read as the same.
func FuzzParsePeers(f *testing.F) {
	for _, s := range []string{
		threePeers, "1=n1:1:2@c:3", "1=[::1]:7401:7402@[fe80::1%eth0]:7400", "1=,2=:,3=@", ",,,,", "1=n1@",
		"254=h:65535:1@h:2", "1=a,1=a", "0=a", "1=[a", "1=[]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var peers []Peer
		var err error
		ofText().Hold(t, len(s), func() { peers, err = ParsePeers(s) })
		if err != nil || len(peerProblems(peers)) > 0 {
			return
		}
		if again, err := ParsePeers(FormatPeers(peers)); err != nil || !reflect.DeepEqual(again, peers) {
			t.Errorf("%q is %v, written and read again %v, %v", s, peers, again, err)
		}
	})
}

// A path may be a device, or the wrong file: what is read of it is bounded.
func TestConfigurationFileIsBounded(t *testing.T) {
	bound.Cost{Fixed: 16 << 20}.Hold(t, 0, func() {
		_, err := loadFuzzed("/dev/zero", nil)
		if err == nil || !strings.Contains(err.Error(), "larger than 1048576 bytes") {
			t.Errorf("a file without an end was refused with %v", err)
		}
	})
}
