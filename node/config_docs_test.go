package node

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of settings into the documents")

const (
	tableBegin = "<!-- settings: begin, written by go test ./node -run TestReferenceInDocuments -update -->\n"
	tableEnd   = "<!-- settings: end -->"
)

// The documents show the settings as they are.
func TestReferenceInDocuments(t *testing.T) {
	for _, path := range []string{"../docs/configuration.md", "../README.md"} {
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(path, "README.md") {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		before, rest, ok := strings.Cut(string(b), tableBegin)
		table, after, ok2 := strings.Cut(rest, tableEnd)
		if !ok || !ok2 {
			t.Errorf("%s: no table of settings between\n%s%s", path, tableBegin, tableEnd)
			continue
		}
		if table == Reference() {
			continue
		}
		if !*update {
			t.Errorf("%s: the table of settings is old: run this test with -update", path)
			continue
		}
		if err := os.WriteFile(path, []byte(before+tableBegin+Reference()+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
