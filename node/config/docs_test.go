package config

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated tables into the documents")

const (
	tableBegin = "<!-- settings: begin, written by go test ./node/config -run TestReferenceInDocuments -update -->\n"
	tableEnd   = "<!-- settings: end -->"
)

// docs/configuration.md shows the settings as they are.
func TestReferenceInDocuments(t *testing.T) {
	const path = "../../docs/configuration.md"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), tableBegin)
	table, after, ok2 := strings.Cut(rest, tableEnd)
	switch {
	case !ok || !ok2:
		t.Errorf("%s: no table of settings between\n%s%s", path, tableBegin, tableEnd)
	case table == Reference():
	case !*update:
		t.Errorf("%s: the table of settings is old: run this test with -update", path)
	default:
		if err := os.WriteFile(path, []byte(before+tableBegin+Reference()+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
