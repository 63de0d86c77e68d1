package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"holdfast/test/loopback"
)

// try runs the program and returns what it wrote.
func try(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errors strings.Builder
	args = append([]string{}, args...) // for nil, cobra takes the arguments of the test's own process
	code = run(t.Context(), args, environ, &out, &errors)
	return code, out.String(), errors.String()
}

func TestVersion(t *testing.T) {
	code, out, _ := try(t, nil, "version")
	if want := regexp.MustCompile(`^version .+\ncommit .+\ngo .+\nfeature level .+\nformats .*entry 1, .+\n$`); code != exitDone ||
		!want.MatchString(out) {
		t.Errorf("got %d, %q", code, out)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"fly"}, {"run", "--fly"}, {"run", "extra"}, {"dev", "--nodes", "x"}} {
		if code, _, stderr := try(t, nil, args...); code != exitUsage || !strings.HasPrefix(stderr, "node: ") {
			t.Errorf("%v: got %d, %q, want %d and why", args, code, stderr, exitUsage)
		}
	}
	for args, says := range map[string]string{
		"rum":          `node: unknown command "rum" for "node": did you mean "node run"?` + "\n",
		"rum --node 3": `node: unknown command "rum" for "node": did you mean "node run"?` + "\n",
		"fly":          `node: unknown command "fly" for "node"` + "\n",
	} {
		if code, _, stderr := try(t, nil, strings.Fields(args)...); code != exitUsage || stderr != says {
			t.Errorf("%s: got %d, %q, want %q", args, code, stderr, says)
		}
	}
	if code, out, _ := try(t, nil); code != exitDone || !strings.Contains(out, "Available Commands") {
		t.Errorf("no arguments: got %d, %q, want help", code, out)
	}
}

func TestRunHelpShowsTheTable(t *testing.T) {
	code, out, _ := try(t, nil, "run", "--help")
	for _, want := range []string{
		"--min-timeout duration", "(default 4s)", "100ms to 24h", "--config file",
		"HOLDFAST_MIN_TIMEOUT",
	} {
		if code != exitDone || !strings.Contains(out, want) {
			t.Errorf("got %d and no %q in\n%s", code, want, out)
		}
	}
}

// All problems come at once, one a line.
func TestRunRefusesAConfiguration(t *testing.T) {
	environ := []string{"HOLDFAST_STALL_TIMEOUT=fast", "HOLDFAST_NODE=1", "HOLDFAST_AUTH=none"}
	code, _, stderr := try(t, environ, "run", "--log-level=loud",
		"--data-dir=x")
	want := strings.Join([]string{
		"node: the configuration cannot work:",
		`  stall_timeout "fast" (environment HOLDFAST_STALL_TIMEOUT): must be a duration with a unit, such as 500ms, 2s or 1m`,
		"  peers (not set, flag --peers): must be 1 to 254 nodes, such as 1=n1,2=n2,3=n3: see " +
			"docs/configuration.md#peers",
		"  log_level loud (flag --log-level): must be trace, debug, info, warn, error or off",
		"",
	}, "\n")
	if code != exitUsage || stderr != want {
		t.Errorf("got %d\n%s\nwant %d\n%s", code, stderr, exitUsage, want)
	}
}

func TestDevRefusesFlags(t *testing.T) {
	for arg, want := range map[string]string{
		"--nodes=10":             "--nodes 10: must be a whole number, 1 to 9",
		"--nodes=0":              "--nodes 0: must be a whole number, 1 to 9",
		"--nodes=x":              "--nodes x: must be a whole number, 1 to 9",
		"--port-base=65500":      "--port-base 65500: must be a whole number, 1 to 65445",
		"--local-sessions=maybe": "--local-sessions maybe: must be true or false",
		"--log-level=loud":       "--log-level loud: must be trace, debug, info, warn, error or off",
		"extra":                  `"node dev" accepts no arguments, not "extra"`,
	} {
		if code, _, stderr := try(t, nil, "dev", arg); code != exitUsage || stderr != "node: "+want+"\n" {
			t.Errorf("%s: got %d, %q, want %d, %q", arg, code, stderr, exitUsage, want)
		}
	}
}

// The nodes of dev read no variables but a secret: dev names the variables that are set for nodes, and no others.
func TestDevNamesVariablesWithoutEffect(t *testing.T) {
	for want, environ := range map[string][]string{
		"": {
			"HOLDFAST_ENDPOINTS=a:1", "HOLDFAST_CLIENT_NAME=p", "HOLDFAST_LOG_LEVEL=", "HOLDFAST_SERVICE_HOST=10.0.0.1",
			"HOLDFAST_SUPER_DIGEST=root:lK75jTNcA+U9vtVEw5vB51mj/w4=", "PATH=/bin",
		},
		"node: node dev reads flags and HOLDFAST_SUPER_DIGEST, and ignores these variables: HOLDFAST_CONFIG, " +
			"HOLDFAST_LOCAL_SESSIONS, HOLDFAST_NOPE\n": {
			"HOLDFAST_NOPE=1", "HOLDFAST_LOCAL_SESSIONS=on", "HOLDFAST_CONFIG=f", "HOLDFAST_ENDPOINTS=a:1",
		},
	} {
		// A file in the place of its directory keeps the cluster from starting.
		dir := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := try(t, environ, "dev", "--dir", dir)
		if before, _, _ := strings.Cut(stderr, "node: mkdir"); code != exitFailed || before != want {
			t.Errorf("%v: got %d, %q, want %d, and before why it failed %q", environ, code, stderr, exitFailed, want)
		}
	}
}

// The nodes' addresses are in Raft's log: a directory serves only the cluster it was made for.
func TestDevClaimsItsDirectory(t *testing.T) {
	d := dev{dir: filepath.Join(t.TempDir(), "dev"), nodes: 3, portBase: 7400}
	for range 2 {
		if err := d.claim(); err != nil {
			t.Fatal(err)
		}
	}
	d.portBase = 8400
	if err := d.claim(); err == nil || !strings.Contains(err.Error(), "was made with --nodes 3 --port-base 7400") {
		t.Errorf("got %v, want a refusal that names the former flags", err)
	}
}

// A node accepts every configuration that dev makes.
func TestDevConfigs(t *testing.T) {
	d := dev{dir: t.TempDir(), nodes: maxDevNodes, portBase: 65535 - portStep*maxDevNodes}
	configs := d.configs()
	if len(configs) != maxDevNodes {
		t.Errorf("got %d configurations, want %d", len(configs), maxDevNodes)
	}
	for _, c := range configs {
		if _, err := c.Complete(); err != nil {
			t.Errorf("node %d: %v", c.Node, err)
		}
	}
}

// Local sessions are on at all nodes or at none: others refuse each other (L9 equal settings).
func TestDevSwitchesLocalSessionsOn(t *testing.T) {
	for _, want := range []bool{false, true} {
		for _, c := range (dev{dir: t.TempDir(), nodes: 3, portBase: 7400, localSessions: want}).configs() {
			if got, err := c.Complete(); err != nil || got.Sessions.Local != want {
				t.Errorf("node %d: local_sessions is %v, want %v: %v", c.Node, got.Sessions.Local, want, err)
			}
		}
	}
}

func TestDevSwitchesReadOnlyOn(t *testing.T) {
	for _, want := range []bool{false, true} {
		for _, c := range (dev{dir: t.TempDir(), nodes: 3, portBase: 7400, readOnly: want}).configs() {
			if got, err := c.Complete(); err != nil || got.ReadOnly != want {
				t.Errorf("node %d: read_only is %v, want %v: %v", c.Node, got.ReadOnly, want, err)
			}
		}
	}
}

func TestHealth(t *testing.T) {
	for _, tt := range []struct {
		name         string
		status, code int
		body, want   string
	}{
		{"serves", http.StatusOK, exitDone, "ok\n", "ok\n"},
		{
			"does not serve", http.StatusServiceUnavailable, exitFailed, "no leader\n",
			"503 Service Unavailable: no leader\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/healthz" {
					t.Errorf("got a request for %s", r.URL.Path)
				}
				w.WriteHeader(tt.status)
				if _, err := w.Write([]byte(tt.body)); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			code, stdout, stderr := try(t, nil, "health", "--address", server.Listener.Addr().String())
			if code != tt.code || !strings.HasSuffix(stdout+stderr, tt.want) {
				t.Errorf("got %d, %q, %q, want %d, %q", code, stdout, stderr, tt.code, tt.want)
			}
		})
	}
	if code, _, stderr := try(t, nil, "health", "--address", loopback.Free(t, 1)[0]); code != exitFailed ||
		stderr == "" {
		t.Errorf("nobody there: got %d, %q, want %d and why", code, stderr, exitFailed)
	}
}

// An address without a port is refused before anything is asked of port 80.
func TestHealthWantsAPort(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "localhost:", ""} {
		want := "node: --address \"" + address + "\": must be host:port, such as 127.0.0.1:7403\n"
		if code, _, stderr := try(t, nil, "health", "--address", address); code != exitUsage || stderr != want {
			t.Errorf("%q: got %d, %q, want %d, %q", address, code, stderr, exitUsage, want)
		}
	}
}

func TestCompletionWantsAShell(t *testing.T) {
	if code, stdout, stderr := try(t, nil, "completion", "nope"); code != exitUsage || stdout != "" ||
		!strings.Contains(stderr, `takes the name of a shell, bash, fish, powershell, zsh: not "nope"`) {
		t.Errorf("got %d, %q, %q, want %d and the names of shells", code, stdout, stderr, exitUsage)
	}
	if code, stdout, _ := try(t, nil, "completion", "bash"); code != exitDone ||
		!strings.Contains(stdout, "complete ") {
		t.Errorf("for bash: got %d, and %d bytes", code, len(stdout))
	}
}

// At another port of a node, health reports that, and shows no bytes of another protocol.
func TestHealthAtAnotherPort(t *testing.T) {
	server := grpc.NewServer()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		<-served
	}()
	code, _, stderr := try(t, nil, "health", "--address", listener.Addr().String())
	want := listener.Addr().String() + " does not answer with HTTP/1: it is not the HTTP port of a node"
	if code != exitFailed || !strings.Contains(stderr, want) || strings.Contains(stderr, "malformed") {
		t.Errorf("got %d, %q, want %d and %q", code, stderr, exitFailed, want)
	}
}

// Health gives up on a node that hangs.
func TestHealthTimeout(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	defer server.Close()
	defer close(ended)
	if code, _, stderr := try(t, nil, "health", "--timeout=1ms", "--address",
		server.Listener.Addr().String()); code != exitFailed || !strings.Contains(stderr, "deadline exceeded") {
		t.Errorf("got %d, %q, want %d and a passed deadline", code, stderr, exitFailed)
	}
}
