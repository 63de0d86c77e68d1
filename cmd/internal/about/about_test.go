package about

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	text := Build{Version: "v1.2.3", Commit: strings.Repeat("a", 40) + "-dirty", Go: "go1.26.0", Platform: "linux/amd64"}.text()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	for _, want := range []string{"version        v1.2.3\n", "a-dirty\n", "go1.26.0 linux/amd64\n", "snapshot 1, backup 1"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestProgram(t *testing.T) {
	version, commit = "v1.2.3", "abc"
	t.Cleanup(func() { version, commit = "", "" })
	if b := Program(); b.Version != "v1.2.3" || b.Commit != "abc" || b.Formats["entry"] != 1 || len(b.Formats) != 6 ||
		b.FeatureLevel != 1 {
		t.Errorf("got %+v", b)
	}
	version, commit = "", ""
	if b := Program(); b.Version == "" || b.Commit == "" {
		t.Errorf("got %+v", b)
	}
}
