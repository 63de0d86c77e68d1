package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/auth"
	"holdfast/node/config"
	"holdfast/test/authfile"
	"holdfast/test/certs"
	"holdfast/transport/guard"
	"holdfast/transport/secure"
)

// secured starts a node that knows its callers by tokens, and returns the names of files with a token for each role.
func secured(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{}
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tokens := authfile.Make(authfile.EachRole())
	for name, token := range tokens {
		files[name] = write(name, token.Secret())
	}
	files["stranger"] = write("stranger", auth.NewToken().Secret())
	file := write("auth.yaml", authfile.Text(t, tokens, authfile.EachRole()))
	n := startNodes(t, 1, func(cfg *config.Config) { cfg.Auth.Mode, cfg.Auth.File = guard.Tokens, file })[0]
	t.Setenv(endpointsVariable, n.address)
	t.Setenv(authTokenVariable, "")
	return files
}

// Each role does with the commands what docs/operations.md says. What it may not do fails at once, with exit code 1 and
// the role that is needed; no command calls a node unreachable that has answered.
func TestRolesWithTheCommands(t *testing.T) {
	files := secured(t)
	as := func(name string, args ...string) (code int, stdout, stderr string) {
		if name != "" {
			args = append([]string{"--auth-token-file", files[name], "--plain-token"}, args...)
		}
		return execute(t, "", patient(args)...)
	}
	if code, _, stderr := as("admin", "create", "/app/web", "host", "--parents"); code != exitDone {
		t.Fatalf("an admin creates an entry: %d, %s", code, stderr)
	}
	for _, tt := range []struct {
		command string
		may     string
		shows   string
	}{
		{"get /app/web", "client reader operator admin", "host"},
		{"ls /app", "client reader operator admin", "web"},
		{"tree /", "client reader operator admin", "web"},
		{"lock show none", "client reader operator admin", ""},
		{"session ls", "reader operator admin", ""},
		{"session open --timeout 4s", "client admin", ""},
		{"set /app/web host", "client admin", ""},
		{"cluster status", "client reader operator admin", "leader"},
	} {
		for _, name := range []string{"", "stranger", "client", "reader", "operator", "admin"} {
			code, stdout, stderr := as(name, strings.Fields(tt.command)...)
			if name != "" && strings.Contains(tt.may, name) {
				if code != exitDone || !strings.Contains(stdout, tt.shows) {
					t.Errorf("%s: %s: exit code %d: %s%s", name, tt.command, code, stdout, stderr)
				}
				continue
			}
			why := "permission denied: the call needs the role"
			switch name {
			case "":
				why = "and no token or certificate was shown"
			case "stranger":
				why = "and this node does not take the token or certificate that was shown"
			}
			if code != exitFailed || !strings.Contains(stderr, why) || strings.Contains(stderr, "reached") ||
				strings.Contains(stderr, "not done within") {
				t.Errorf("%q: %s: exit code %d, want %d with %q: %s", name, tt.command, code, exitFailed, why, stderr)
			}
		}
	}
}

// A side that does not agree on TLS is said to be so at once, with exit code 1, by every command: no node was silent, and
// its port is the right one.
func TestCommandsThatDoNotAgreeOnTLS(t *testing.T) {
	ca, other := certs.New(t), certs.New(t)
	encrypted := startNodes(t, 1, func(cfg *config.Config) {
		f := ca.Node(cfg.ClusterID, cfg.Node)
		cfg.TLS = config.TLS{
			Nodes: secure.Off, Clients: secure.Require, HTTP: secure.Off, ClientAuth: secure.AuthNone,
			Cert: f.Cert, Key: f.Key, CA: f.CA,
		}
	})[0]
	plain := startNodes(t, 1, asIs)[0]
	for name, tt := range map[string]struct {
		address, cacert, why string
	}{
		"plain to TLS": {encrypted.address, "", "it requires TLS, and this side speaks without TLS"},
		"another CA":   {encrypted.address, other.File, "its certificate is not accepted"},
		"TLS to plain": {plain.address, ca.File, "it speaks without TLS"},
	} {
		for _, command := range []string{
			"ls /", "create /a", "session open --timeout 4s", "session ls", "cluster status", "cluster members", "ping",
		} {
			args := append([]string{"--endpoints", tt.address, "--cacert", tt.cacert}, strings.Fields(command)...)
			code, stdout, stderr := execute(t, "", patient(args)...)
			if code != exitFailed || !strings.Contains(stderr, tt.why) || strings.Contains(stdout+stderr, "reached") ||
				strings.Contains(stdout+stderr, "not a client port") || strings.Contains(stderr, "not done within") {
				t.Errorf("%s: %s: exit code %d, want %d with %q: %s%s", name, command, code, exitFailed, tt.why, stdout, stderr)
			}
		}
	}
	if code, stdout, stderr := execute(t, "", patient([]string{
		"--endpoints", encrypted.address, "--cacert", ca.File, "ls", "/",
	})...); code != exitDone {
		t.Errorf("two sides that agree: exit code %d: %s%s", code, stdout, stderr)
	}
}
