package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/auth"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/node/config"
	"holdfast/test/authfile"
	"holdfast/test/certs"
	"holdfast/transport/authz"
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
	n := clitest.StartNodes(t, 1, func(cfg *config.Config) { cfg.Auth.Mode, cfg.Auth.File = authz.Tokens, file })[0]
	t.Setenv(cli.EndpointsVariable, n.Address)
	t.Setenv(cli.AuthTokenVariable, "")
	return files
}

// Each role can use the commands that docs/operations/security.md lists. Others fail at once, with exit code 1 and the
// needed role; no command calls an answering node unreachable.
func TestRolesWithTheCommands(t *testing.T) {
	files := secured(t)
	as := func(name string, args ...string) (code int, stdout, stderr string) {
		if name != "" {
			args = append([]string{"--auth-token-file", files[name], "--token-without-tls"}, args...)
		}
		return clitest.Execute(t, "", clitest.Patient(args)...)
	}
	if code, _, stderr := as("admin", "create", "/app/web", "host", "--parents"); code != cli.ExitDone {
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
				if code != cli.ExitDone || !strings.Contains(stdout, tt.shows) {
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
			if code != cli.ExitFailed || !strings.Contains(stderr, why) || strings.Contains(stderr, "reached") ||
				strings.Contains(stderr, "not done within") {
				t.Errorf("%q: %s: exit code %d, want %d with %q: %s", name, tt.command, code, cli.ExitFailed, why, stderr)
			}
		}
	}
}

// Disagreement about TLS is reported at once, with exit code 1, by every command: no node was silent, and its port is
// the right one.
func TestCommandsThatDoNotAgreeOnTLS(t *testing.T) {
	ca, other := certs.New(t), certs.New(t)
	encrypted := clitest.StartNodes(t, 1, func(cfg *config.Config) {
		f := ca.Node(cfg.ClusterID, cfg.Node)
		cfg.TLS = config.TLS{
			Nodes: secure.Off, Clients: secure.Require, HTTP: secure.Off, ClientAuth: secure.AuthNone,
			Cert: f.Cert, Key: f.Key, CA: f.CA,
		}
	})[0]
	plain := clitest.StartNodes(t, 1, clitest.Defaults)[0]
	for name, tt := range map[string]struct {
		address, cacert, why string
	}{
		"plain to TLS": {encrypted.Address, "", "it requires TLS, and this side speaks without TLS"},
		"another CA":   {encrypted.Address, other.File, "its certificate is not accepted"},
		"TLS to plain": {plain.Address, ca.File, "it speaks without TLS"},
	} {
		for _, command := range []string{
			"ls /", "create /a", "session open --timeout 4s", "session ls", "cluster status", "cluster members", "ping",
		} {
			args := append([]string{"--endpoints", tt.address, "--cacert", tt.cacert}, strings.Fields(command)...)
			code, stdout, stderr := clitest.Execute(t, "", clitest.Patient(args)...)
			if code != cli.ExitFailed || !strings.Contains(stderr, tt.why) || strings.Contains(stdout+stderr, "reached") ||
				strings.Contains(stdout+stderr, "not a client port") || strings.Contains(stderr, "not done within") {
				t.Errorf("%s: %s: exit code %d, want %d with %q: %s%s", name, command, code, cli.ExitFailed, tt.why, stdout, stderr)
			}
		}
	}
	if code, stdout, stderr := clitest.Execute(t, "", clitest.Patient([]string{
		"--endpoints", encrypted.Address, "--cacert", ca.File, "ls", "/",
	})...); code != cli.ExitDone {
		t.Errorf("two sides that agree: exit code %d: %s%s", code, stdout, stderr)
	}
}
