package config

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"holdfast/session"
	"holdfast/transport/authz"
)

const threePeers = "1=n1,2=n2,3=n3"

func validConfig(t *testing.T) Config {
	t.Helper()
	c := Default()
	c.Node, c.DataDir, c.Auth.Mode = 1, "data", authz.None
	peers, err := ParsePeers(threePeers)
	if err != nil {
		t.Fatal(err)
	}
	c.Peers = peers
	return c
}

// load is what a process with these arguments, variables and file sees.
func load(t *testing.T, file string, environ []string, args ...string) (Config, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "node.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Chdir(filepath.Dir(path))
		environ = append(environ, "HOLDFAST_CONFIG=node.yaml")
	}
	says := func(s string) bool { return strings.HasPrefix(s, "auth: ") || strings.HasPrefix(s, "--auth=") }
	if !says(file) && !slices.ContainsFunc(args, says) {
		environ = append([]string{"HOLDFAST_AUTH=none"}, environ...) // the last one counts
	}
	flags := pflag.NewFlagSet("node", pflag.ContinueOnError)
	RegisterFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load(flags, environ)
}

// Raft's three times of elections are one setting, and what is not longer than a session lives is bounded by the
// shortest timeout.
func TestWhatFollowsFromSettings(t *testing.T) {
	c := validConfig(t)
	if l, e := c.Sessions.CatchUpWait(), c.Sessions.ExpiryInterval(); l != time.Second || e != 250*time.Millisecond {
		t.Errorf("by default a node waits %v to catch up, and buckets have %v", l, e)
	}
	c.Raft.HeartbeatTimeout = 900 * time.Millisecond
	c.Sessions.HeartbeatInterval, c.Sessions.MinTimeout = 20*time.Millisecond, 200*time.Millisecond
	c, err := c.Complete()
	if err != nil {
		t.Fatal(err)
	}
	r := c.RaftConfig()
	for _, got := range []time.Duration{r.HeartbeatTimeout, r.ElectionTimeout, r.LeaderLeaseTimeout} {
		if got != c.Raft.HeartbeatTimeout {
			t.Errorf("Raft has a timeout of %v, want %v", got, c.Raft.HeartbeatTimeout)
		}
	}
	if l, e := c.Sessions.CatchUpWait(), c.Sessions.ExpiryInterval(); l != c.Sessions.MinTimeout ||
		e != c.Sessions.MinTimeout {
		t.Errorf("with the least timeout of %v, a node waits %v to catch up, and buckets have %v", c.Sessions.MinTimeout,
			l, e)
	}
}

func TestLoadPrecedence(t *testing.T) {
	file := "node: 1\ndata_dir: file\ncluster_id: file\npeers: " + threePeers + "\nmin_timeout: 3s\n"
	got, err := load(
		t, file, []string{"HOLDFAST_DATA_DIR=env", "HOLDFAST_CLUSTER_ID=env", "HOLDFAST_LOG_LEVEL=", "PATH=/bin"},
		"--cluster-id=flag",
	)
	if err != nil {
		t.Fatal(err)
	}
	if got.ClusterID != "flag" || got.DataDir != "env" || got.Sessions.MinTimeout != 3*time.Second ||
		got.Log.Level != "info" {
		t.Errorf("got %q from flag, %q from environment, %s from file, %q from defaults", got.ClusterID, got.DataDir,
			got.Sessions.MinTimeout, got.Log.Level)
	}
}

// Every setting is another value in turn, given in each of the three ways. A secret has no flag.
func TestEverySettingFromEverySource(t *testing.T) {
	other := map[string]string{
		"node": "2", "cluster_id": "c", "data_dir": "d", "peers": "1=a:1:2@c:3,2=b:4:5@d:6", "join": "on",
		"client_listen": ":1", "raft_listen": ":2", "peer_listen": ":3", "http_listen": ":4",
		"zk_listen": ":5", "zk_4lw_commands": "ruok,srvr",
		"heartbeat_interval": "100ms", "min_timeout": "5s", "max_timeout": "50s",
		"max_sessions": "18", "max_state_bytes": "67108865", "max_tree_bytes": "67108866", "raft_heartbeat_timeout": "900ms",
		"local_sessions": "on", "local_session_upgrade": "off", "read_only": "on",
		"quotas_by_acl":     "on",
		"super_digest":      "root:lK75jTNcA+U9vtVEw5vB51mj/w4=",
		"stall_timeout":     "2s",
		"max_message_bytes": "524288", "max_connections": "10", "max_buffered_bytes": "67108864",
		"max_opens_per_second": "13", "max_resumes_per_second": "50001",
		"max_writes_per_second":                        "14",
		"max_opens_and_resumes_per_second_per_address": "15", "max_opens_and_resumes_per_second_per_client": "16",
		"max_connections_per_address": "17", "disk_limit": "80", "memory_limit": "4096",
		"auth": "tokens", "auth_file": "a.yaml", "audit_file": "audit.log", "http_allowed_hosts": "a.test,b.test",
		"node_tls": "require", "client_tls": "prefer", "http_tls": "require",
		"tls_cert": "c", "tls_key": "k",
		"tls_ca": "a", "tls_client_ca": "b", "client_cert_auth": "require", "http_cert_auth": "optional",
		"allow_tls_1_2": "on",
		"drain_timeout": "3s", "log_level": "debug", "log_format": "json",
		"trace_endpoint": "https://otel:4317", "trace_sample_ratio": "0.25", "trace_ca": "ca.pem",
	}
	for _, s := range settings() {
		v := other[s.name]
		delete(other, s.name)
		if v == "" || v == s.def {
			t.Fatalf("%s: no other value in this test", s.name)
		}
		required := map[string]string{"node": "1", "data_dir": "data", "peers": threePeers}
		if strings.HasSuffix(s.name, "_tls") {
			required["tls_cert"], required["tls_key"], required["tls_ca"] = "c", "k", "a"
		}
		switch s.name {
		case "auth":
			required["auth_file"] = "a.yaml"
		case "auth_file":
			required["auth"] = "tokens"
		}
		delete(required, s.name)
		var environ []string
		for name, value := range required {
			environ = append(environ, "HOLDFAST_"+strings.ToUpper(name)+"="+value)
		}
		for source, load := range map[string]func() (Config, error){
			"flag":        func() (Config, error) { return load(t, "", environ, "--"+s.flag()+"="+v) },
			"environment": func() (Config, error) { return load(t, "", append(environ, s.variable()+"="+v)) },
			"file":        func() (Config, error) { return load(t, s.name+": '"+v+"'\n", environ) },
		} {
			if s.secret && source == "flag" {
				continue
			}
			c, err := load()
			if err != nil {
				t.Fatalf("%s from %s: %v", s.name, source, err)
			}
			if got := s.value(&c).String(); got != v {
				t.Errorf("%s from %s: got %q, want %q", s.name, source, got, v)
			}
		}
	}
	if len(other) > 0 {
		t.Errorf("no settings: %v", slices.Sorted(maps.Keys(other)))
	}
}

func TestCompleteRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(c *Config)
		want string
	}{
		{"node 0", func(c *Config) { c.Node = 0 }, "node (not set): must be 1 to 254"},
		{"node 255", func(c *Config) { c.Node = 255 }, "node 255: must be 1 to 254"},
		{"node elsewhere", func(c *Config) {
			c.Node = 4
		}, "node 4: must be one of peers 1=n1:7401:7402@n1:7400,2=n2:7401:7402@n2:7400,3=n3:7401:7402@n3:7400"},
		{"cluster id empty", func(c *Config) {
			c.ClusterID = ""
		}, "cluster_id (not set): must be 1 to 64 of a-z A-Z 0-9 . _ -"},
		{"cluster id long", func(c *Config) {
			c.ClusterID = strings.Repeat("a", 65)
		}, "cluster_id " + strings.Repeat("a", 65) + ": must be 1 to 64 of a-z A-Z 0-9 . _ -"},
		{"cluster id letters", func(c *Config) {
			c.ClusterID = "a b"
		}, "cluster_id a b: must be 1 to 64 of a-z A-Z 0-9 . _ -"},
		{"data dir", func(c *Config) { c.DataDir = "" }, "data_dir (not set): must be a path"},
		{"no peers", func(c *Config) { c.Peers = nil }, "peers (not set): must be " + peersLimit},
		{"peer twice", func(c *Config) { c.Peers[1].Node = 1 }, "peers: node 1 is named twice"},
		{"peer 255", func(c *Config) { c.Peers[1].Node = 255 }, "peers: node 255 is not 1 to 254"},
		{"shared address", func(c *Config) {
			c.Peers[1].Peer = "n1:7401"
		}, "peers: peer address of node 2 is n1:7401, as the raft address of node 1"},
		{"peer without port", func(c *Config) {
			c.Peers[1].Raft = "n2"
		}, `peers: raft address of node 2 is "n2", and must be HOST:PORT that others can reach, port 1 to 65535`},
		{"peer everywhere", func(c *Config) {
			c.Peers[1].Client = "0.0.0.0:7400"
		}, `peers: client address of node 2 is "0.0.0.0:7400", and must be HOST:PORT that others can reach, port 1 to 65535`},
		{"listen", func(c *Config) {
			c.Listen.HTTP = "7403"
		}, "http_listen 7403: must be HOST:PORT or :PORT, port 1 to 65535"},
		{"listen host", func(c *Config) {
			c.Listen.HTTP = "a b:7403"
		}, "http_listen a b:7403: must be HOST:PORT or :PORT, port 1 to 65535"},
		{"listen port 0", func(c *Config) {
			c.Listen.Raft = ":0"
		}, "raft_listen :0: must be HOST:PORT or :PORT, port 1 to 65535"},
		{"same port", func(c *Config) {
			c.Listen.Raft = "127.0.0.1:7400"
		}, "raft_listen 127.0.0.1:7400: must not be the port of client_listen :7400"},
		{"heartbeat negative", func(c *Config) {
			c.Sessions.HeartbeatInterval = -1
		}, "heartbeat_interval -1ns: must be 1ms to 1m"},
		{"heartbeat too slow", func(c *Config) {
			c.Sessions.HeartbeatInterval = 4 * time.Second / 3
			c.Sessions.MinTimeout = 4*time.Second - time.Millisecond
		}, "min_timeout 3.999s: must be above 3 times heartbeat_interval 1.333333333s"},
		{"min above max", func(c *Config) {
			c.Sessions.MaxTimeout = 3 * time.Second
		}, "min_timeout 4s: must be at most max_timeout 3s"},
		{"min not whole", func(c *Config) {
			c.Sessions.MinTimeout = 4*time.Second + 1
		}, "min_timeout 4.000000001s: must be whole milliseconds"},
		{"max not whole", func(c *Config) {
			c.Sessions.MaxTimeout = 40*time.Second + 1
		}, "max_timeout 40.000000001s: must be whole milliseconds"},
		{"max above all", func(c *Config) {
			c.Sessions.MaxTimeout = session.MaxTimeout + time.Millisecond
		}, "max_timeout 24h0m0.001s: must be 100ms to 24h"},
		{"stall", func(c *Config) {
			c.Raft.StallTimeout = 999 * time.Millisecond
		}, "stall_timeout 999ms: must be at least raft_heartbeat_timeout 1s"},
		{"message", func(c *Config) {
			c.Clients.MaxMessageBytes = 1
		}, "max_message_bytes 1: must be 524288 to 67108864"},
		{"opens above resumes", func(c *Config) {
			c.RateLimits.MaxResumesPerSecond = 49_999
		}, "max_opens_per_second 50000: must be at most max_resumes_per_second 49999, where 0 (no limit) is the largest " +
			"value: sessions that exist come before new ones"},
		{"opens without limit", func(c *Config) {
			c.RateLimits.MaxOpensPerSecond = 0
		}, "max_opens_per_second 0: must be at most max_resumes_per_second 200000, where 0 (no limit) is the largest " +
			"value: sessions that exist come before new ones"},
		{"opens negative", func(c *Config) {
			c.RateLimits.MaxOpensPerSecond = -1
		}, "max_opens_per_second -1: must be 0 to 10000000"},
		{"connections of an address", func(c *Config) {
			c.RateLimits.MaxConnectionsPerAddress = -1
		}, "max_connections_per_address -1: must be 0 to 10000000"},
		{"level", func(c *Config) {
			c.Log.Level = "loud"
		}, "log_level loud: must be trace, debug, info, warn, error or off"},
		{"format", func(c *Config) { c.Log.Format = "xml" }, "log_format xml: must be text or json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := validConfig(t)
			tt.edit(&c)
			_, err := c.Complete()
			if err == nil || err.Error() != tt.want {
				t.Fatalf("got  %v\nwant %s", err, tt.want)
			}
			var setting *SettingError
			if !errors.Is(err, session.ErrInvalid) || !errors.As(err, &setting) {
				t.Errorf("got %T, want a SettingError that is ErrInvalid", err)
			}
		})
	}
}

// The bounds themselves are allowed, and listeners may share a port on different addresses.
func TestCompleteAllowsBounds(t *testing.T) {
	c := validConfig(t)
	c.Node, c.Peers[0].Node = 254, 254
	c.Sessions.MaxTimeout = session.MaxTimeout
	c.Raft.StallTimeout = c.Raft.HeartbeatTimeout
	c.Sessions.HeartbeatInterval, c.Sessions.MinTimeout = time.Second, 3*time.Second+time.Millisecond
	c.Listen.Client, c.Listen.Raft = "127.0.0.1:7400", "127.0.0.2:7400"
	if _, err := c.Complete(); err != nil {
		t.Error(err)
	}
}

// Problems of all sources come together, each with its origin, and a value that cannot be read causes no second one.
func TestLoadNamesAllProblemsAtOnce(t *testing.T) {
	file := "nodes: 1\nstall_timeout: 2\nmin_timeout: 50s\nlog_level: loud\nlog_level: info\ncluster_id:\n"
	_, err := load(
		t, file, []string{
			"HOLDFAST_MAX_TIMEOUT=30s", "HOLDFAST_TIMEOUT=1s", "HOLDFAST_ENDPOINTS=a:1",
			"HOLDFAST_NODE=300",
		}, "--max-opens-per-second=300000",
	)
	want := strings.Join([]string{
		"nodes (file node.yaml, line 1): is not a setting: see node run --help",
		`stall_timeout "2" (file node.yaml, line 2): must be a duration with a unit, such as 500ms, 2s or 1m`,
		"log_level (file node.yaml, line 5): is set twice",
		"cluster_id (file node.yaml, line 6): must be a single value",
		`node "300" (environment HOLDFAST_NODE): must be a whole number, 1 to 254`,
		"HOLDFAST_TIMEOUT (environment): is not a setting: see node run --help",
		"data_dir (not set, flag --data-dir): must be a path",
		"peers (not set, flag --peers): must be 1 to 254 nodes, such as 1=n1,2=n2,3=n3: see docs/configuration.md#peers",
		"log_level loud (file node.yaml, line 4): must be trace, debug, info, warn, error or off",
		"min_timeout 50s (file node.yaml, line 3): must be at most max_timeout 30s (environment HOLDFAST_MAX_TIMEOUT)",
		"max_opens_per_second 300000 (flag --max-opens-per-second): must be at most max_resumes_per_second 200000 " +
			"(default), where 0 (no limit) is the largest value: sessions that exist come before new ones",
	}, "\n")
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestWarnings(t *testing.T) {
	c := validConfig(t)
	c.Listen.Client, c.Listen.HTTP = "127.0.0.1:7400", "127.0.0.1:7403"
	for n, want := range map[int]int{1: 1, 2: 1, 3: 0} {
		c.Peers = c.Peers[:n]
		if got := c.Warnings(); len(got) != want {
			t.Errorf("%d peers: got %q, want %d warnings", n, got, want)
		}
	}
}

// Rate limits may be equal, and off: from the least important on, never only from the most important.
func TestRateLimitsThatFitTogether(t *testing.T) {
	for _, rates := range [][2]int{{0, 0}, {5, 0}, {5, 5}, {1, 2}} {
		c := validConfig(t)
		c.RateLimits.MaxOpensPerSecond, c.RateLimits.MaxResumesPerSecond = rates[0], rates[1]
		if _, err := c.Complete(); err != nil {
			t.Errorf("opens, resumes %v: %v", rates, err)
		}
	}
}

// The client of the command line reads variables of its own, which are no settings.
func TestVariablesOfTheCommandLineMayStandBeside(t *testing.T) {
	if _, err := load(
		t, "", []string{"HOLDFAST_NODE=1", "HOLDFAST_DATA_DIR=d", "HOLDFAST_PEERS=" +
			threePeers, "HOLDFAST_ENDPOINTS=a:1", "HOLDFAST_CLIENT_NAME=me"},
	); err != nil {
		t.Error(err)
	}
}

// Kubernetes puts these into every pod of a namespace with a Service named holdfast.
func TestLinksOfKubernetesMayStandBeside(t *testing.T) {
	required := []string{"HOLDFAST_NODE=1", "HOLDFAST_DATA_DIR=d", "HOLDFAST_PEERS=" + threePeers}
	links := []string{
		"HOLDFAST_SERVICE_HOST=10.0.0.1", "HOLDFAST_SERVICE_PORT=7400", "HOLDFAST_SERVICE_PORT_CLIENT_GRPC=7400",
		"HOLDFAST_PORT=tcp://10.0.0.1:7400",
		"HOLDFAST_PORT_7400_TCP=tcp://10.0.0.1:7400", "HOLDFAST_PORT_7400_TCP_PROTO=tcp",
		"HOLDFAST_PORT_7400_TCP_PORT=7400", "HOLDFAST_PORT_7400_TCP_ADDR=10.0.0.1",
		"HOLDFAST_PORT_53_UDP=udp://10.0.0.1:53", "HOLDFAST_PORT_53_UDP_ADDR=10.0.0.1",
	}
	if _, err := load(t, "", slices.Concat(required, links)); err != nil {
		t.Error(err)
	}
	for _, written := range []string{
		"HOLDFAST_SERVICE=x", "HOLDFAST_SERVICE_HOSTS=x", "HOLDFAST_SERVICE_PORTS=1", "HOLDFAST_PORT=7400",
		"HOLDFAST_PORT_7400=tcp://x:1",
		"HOLDFAST_PORT_7400_TCP=7400", "HOLDFAST_PORT_7400_TCP_HOST=x", "HOLDFAST_PORT_X_TCP_ADDR=x",
		"HOLDFAST_X_SERVICE_HOST=x",
	} {
		name, _, _ := strings.Cut(written, "=")
		want := name + " (environment): is not a setting: see node run --help"
		if _, err := load(t, "", append(required, written)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", written, err, want)
		}
	}
}

func TestN1ReadOnlyAfter(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Config)
		want   time.Duration
	}{
		"defaults": {func(*Config) {}, 5500 * time.Millisecond},
		"a longer heartbeat interval": {func(c *Config) {
			c.Sessions.HeartbeatInterval = 700 * time.Millisecond
		}, 6100 * time.Millisecond},
		"Raft's heartbeat timeout": {func(c *Config) {
			c.Raft.HeartbeatTimeout = 3 * time.Second
		}, 9500 * time.Millisecond},
		"a shorter heartbeat interval": {func(c *Config) {
			c.Sessions.HeartbeatInterval = 250 * time.Millisecond
		}, 4750 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			c := validConfig(t)
			tt.change(&c)
			c, err := c.Complete()
			if err != nil {
				t.Fatal(err)
			}
			if got := c.ReadOnlyAfter(); got != tt.want {
				t.Errorf("after %v, want %v", got, tt.want)
			}
		})
	}
}
