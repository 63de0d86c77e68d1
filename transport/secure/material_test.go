package secure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is no PEM file of certificates, such as a device without an end, is not read to its end.
func TestFilesAreBounded(t *testing.T) {
	for size, want := range map[int]string{maxFile: "", maxFile + 1: "is larger than 1048576 bytes"} {
		path := filepath.Join(t.TempDir(), "cert.pem")
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := readFile(path)
		if want == "" && (err != nil || len(b) != size) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("a file of %d bytes: %d bytes, %v, want %q", size, len(b), err, want)
		}
	}
}
