package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tokenFile returns a file that holds a token.
func tokenFile(t *testing.T, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A file may hold the whole output of a command that prints a token, in each form.
func TestTokensInOutputs(t *testing.T) {
	startNode(t)
	_, table, _ := execute(t, "", "session", "open")
	_, object, _ := execute(t, "", "session", "open", "-o", "json")
	file := filepath.Join(t.TempDir(), "token")
	line := `{"id":"0x0100000000010007","token":"` + tokenText + `","timeout_ms":10000,"owner":1}` + "\n"
	for _, text := range []string{
		table, object, tokenText, tokenText + "\n", line,
		line + strings.Repeat(`{"time":"2026-01-01T00:00:00Z","event":"connected"}`+"\n", 200),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := execute(t, "", "session", "touch", "--token-file", file); code != exitDone {
			t.Errorf("%.300s: exit code %d, %s", text, code, stderr)
		}
	}
	for _, text := range []string{`{"id":"0x0100000000010007"}`, `{"token":"` + tokenText, `{"token":1}`, "{}", ""} {
		code, _, stderr := execute(t, text, "session", "touch", "--token-file", "-")
		if code != exitUsage || strings.Contains(stderr, "ab00000") {
			t.Errorf("%s: exit code %d, %s", text, code, stderr)
		}
	}
}

// A file that is too long for a token is refused, and its beginning is not taken for the token: a token that is cut in
// its attachment is one of a former attachment.
func TestFilesOfTokensAreBounded(t *testing.T) {
	blank := strings.Repeat(" ", tokenBytes-len(tokenText))
	for _, tt := range []struct {
		text string
		fits bool
	}{
		{blank + tokenText, true},
		{blank + tokenText + "1", false},
		{"token " + tokenText + "\n" + blank + blank, true},
		{blank[:len(blank)-len("token ")] + "token " + tokenText + "1\n", false},
		{tokenText + "\n" + blank + blank, false},
	} {
		got, err := (&tokenFlag{file: "-"}).token(t.Context(), strings.NewReader(tt.text))
		if tt.fits && (err != nil || formatToken(got) != tokenText) ||
			!tt.fits && (err == nil || !strings.Contains(err.Error(), "more than 4096 bytes")) {
			t.Errorf("%d bytes: %v, %v; fits: %v", len(tt.text), got, err, tt.fits)
		}
	}
}
