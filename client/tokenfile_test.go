package client

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that is too long for a token is named, and no part of it is sent.
func TestFilesOfTokensAreBounded(t *testing.T) {
	for size, want := range map[int]string{maxTokenBytes: "", maxTokenBytes + 1: "more than 4096 bytes"} {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, bytes.Repeat([]byte("t"), size), 0o600); err != nil {
			t.Fatal(err)
		}
		token, err := TokenFile(path)(t.Context())
		if want == "" && (err != nil || len(token) != size) ||
			want != "" && (err == nil || token != "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("a file of %d bytes: %d bytes, %v, want %q", size, len(token), err, want)
		}
	}
}
