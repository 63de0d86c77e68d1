package session

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
	"holdfast/cmd/holdfast/internal/keepalive"
	"holdfast/cmd/holdfast/internal/view"
)

// "session open" accepts the longest timeout, and a label with an empty value, as its help says.
func TestOpenAcceptsDocumentedValues(t *testing.T) {
	n := fakenode.Start(t)
	if code, _, stderr := clitest.Execute(t, "", "session", "open", "--timeout", "24h", "--label",
		"service="); code != cli.ExitDone {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if got := n.Calls(); len(got) != 1 || got[0] != "open 24h0m0s " {
		t.Errorf("got %q", got)
	}
}

func TestOpenPrintsATokenForOtherCommands(t *testing.T) {
	n := fakenode.Start(t)
	code, stdout, stderr := clitest.Execute(t, "", "session", "open", "--timeout", "7s", "--label", "service=web",
		"-o", "json")
	var v keepalive.Opened
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != cli.ExitDone {
		t.Fatalf("exit code %d, %s, %v in %s", code, stderr, err, stdout)
	}
	if v.Token != fakenode.TokenText || v.ID != view.ID(fakenode.LivingID) || v.TimeoutMS != 10_000 || v.Owner != 1 ||
		v.SafeUntil == nil {
		t.Errorf("got %+v", v)
	}
	if code, _, stderr = clitest.Execute(t, v.Token+"\n", "session", "close", "--token-file", "-"); code != cli.ExitDone {
		t.Errorf("token from standard input: exit code %d, %s", code, stderr)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(v.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr = clitest.Execute(t, "", "session", "touch", "--token-file", file); code != cli.ExitDone {
		t.Errorf("token from a file: exit code %d, %s", code, stderr)
	}
	if got, want := n.Calls(), []string{"open 7s web", "close", "touch"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, stdout, _ = clitest.Execute(t, "", "session", "open"); !strings.Contains(
		stdout, "token       "+fakenode.TokenText) {
		t.Errorf("table:\n%s", stdout)
	}
	if err := os.WriteFile(file, []byte(stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr = clitest.Execute(t, "", "session", "touch", "--token-file", file); code != cli.ExitDone {
		t.Errorf("token from what session open printed: exit code %d, %s", code, stderr)
	}
}

// A file may hold the whole output of a command that prints a token, in each form.
func TestTokensInOutputs(t *testing.T) {
	fakenode.Start(t)
	_, table, _ := clitest.Execute(t, "", "session", "open")
	_, object, _ := clitest.Execute(t, "", "session", "open", "-o", "json")
	file := filepath.Join(t.TempDir(), "token")
	line := `{"id":"0x0100000000010007","token":"` + fakenode.TokenText + `","timeout_ms":10000,"owner":1}` + "\n"
	for _, text := range []string{
		table, object, fakenode.TokenText, fakenode.TokenText + "\n", line,
		line + strings.Repeat(`{"time":"2026-01-01T00:00:00Z","event":"connected"}`+"\n", 200),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := clitest.Execute(t, "", "session", "touch", "--token-file", file); code != cli.ExitDone {
			t.Errorf("%.300s: exit code %d, %s", text, code, stderr)
		}
	}
	for _, text := range []string{
		`{"id":"0x0100000000010007"}`, `{"token":"` + fakenode.TokenText, `{"token":1}`, "{}",
		"",
	} {
		code, _, stderr := clitest.Execute(t, text, "session", "touch", "--token-file", "-")
		if code != cli.ExitUsage || strings.Contains(stderr, "ab00000") {
			t.Errorf("%s: exit code %d, %s", text, code, stderr)
		}
	}
}
