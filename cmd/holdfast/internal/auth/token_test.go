package auth

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
)

// A token is printed once, with its line. The other commands accept both, and show neither the token nor its digest.
func TestAuthToken(t *testing.T) {
	dir := t.TempDir()
	var made newTokenView
	out := mustRun(t, "auth", "token", "new", "web", "--role", "client,reader", "--expires-in", "1h", "-o", "json")
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	file, secret := filepath.Join(dir, "auth.yaml"), filepath.Join(dir, "token")
	for path, text := range map[string]string{
		file:   "tokens:\n" + made.Line + "\ncertificates:\n- {name: cn:a, roles: [admin], expires: 2020-01-01T00:00:00Z}\n",
		secret: made.Token + "\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, format := range []string{"table", "json"} {
		shown := mustRun(t, "auth", "token", "show", file, "-o", format)
		whose := mustRun(t, "auth", "token", "verify", "--file", file, "--auth-token-file", secret, "-o", format)
		for _, want := range []string{"token:web", "client", "reader", "cn:a", "expired"} {
			if !strings.Contains(shown, want) {
				t.Errorf("show: no %s in %s", want, shown)
			}
		}
		if !strings.Contains(whose, "token:web") {
			t.Errorf("verify says %s", whose)
		}
		_, digest, _ := strings.Cut(made.Line, "sha256: \"")
		for _, secret := range []string{made.Token, digest[:64]} {
			if strings.Contains(shown+whose, secret) {
				t.Errorf("a secret is shown: %s %s", shown, whose)
			}
		}
	}
	if err := os.WriteFile(secret, []byte(strings.Repeat("holdfast_A", 5)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"no role":       {"auth", "token", "new", "web"},
		"another role":  {"auth", "token", "new", "web", "--role", "root"},
		"a name":        {"auth", "token", "new", "a b", "--role", "client"},
		"a wrong token": {"auth", "token", "verify", "--file", file, "--auth-token-file", secret},
		"plain":         {"cluster", "members", "--auth-token-file", secret},
	} {
		code, _, stderr := clitest.Execute(t, "", args...)
		if code == 0 || strings.Contains(stderr, "holdfast_AAA") {
			t.Errorf("%s: got %d, %s", name, code, stderr)
		}
	}
}

// mustRun runs a command that must succeed, and returns its output.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := clitest.Execute(t, "", args...)
	if code != cli.ExitDone {
		t.Fatalf("%s: got %d: %s", args[:3], code, stderr)
	}
	return stdout
}
