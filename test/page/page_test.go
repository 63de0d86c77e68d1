package page

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// Every command of docs/operations has a claim: the tests that type it, or how else it is run, or why it is not.
func TestEveryCommandIsClaimed(t *testing.T) {
	text := read(t)
	there := map[string]bool{}
	for _, b := range blocks(text) {
		if b.name == "" || there[b.name] {
			t.Errorf("block %q of docs/operations needs a mark of its own before it, <!-- drill: NAME -->:\n%s", b.name,
				b.commands)
		}
		there[b.name] = true
	}
	if len(there) < 15 {
		t.Errorf("docs/operations has %d blocks: this test does not see them", len(there))
	}
	for _, command := range inline(text) {
		there[command] = true
	}
	all := claims()
	for _, what := range slices.Sorted(maps.Keys(there)) {
		if _, ok := all[what]; !ok {
			t.Errorf("docs/operations has %q, and no test claims it: see claims.go", what)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(all)) {
		if !there[what] {
			t.Errorf("claims.go has %q, and docs/operations does not", what)
		}
	}
}

// Who claims something exists: a test that opens the page, which sees to the rest. What is not run has a reason.
func TestClaimsAreKept(t *testing.T) {
	tests := map[string]bool{}
	for _, dir := range []string{"../e2e", "."} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)(?:.*\n[^}].*)*`).
				FindAllStringSubmatch(string(text), -1) {
				opens := regexp.MustCompile(`newDrill\(t|Open\(t\)`).MatchString(f[0])
				tests[f[1]] = opens
			}
		}
	}
	all := claims()
	for _, what := range slices.Sorted(maps.Keys(all)) {
		by := all[what]
		for _, test := range by.tests {
			if !tests[test] {
				t.Errorf("%q is for %s, which is no test that opens the page", what, test)
			}
		}
		if len(by.tests) == 0 && cmp.Or(by.how, by.not) == "" {
			t.Errorf("%q has neither a test nor a reason", what)
		}
	}
}

// What the page has is found: marked and unmarked blocks, also in lists, and commands that go over the end of a line.
func TestReading(t *testing.T) {
	text := "a\n<!-- drill: one -->\n```sh\nmake up\n```\n\n   ```sh\n   holdfast two\n   ```\n`holdfast\n  three` " +
		"`setting` `df`\n```yaml\n`make four`\n```\n"
	want := []block{{"one", "make up\n"}, {"", "holdfast two\n"}}
	if got := blocks(text); !slices.Equal(got, want) {
		t.Errorf("blocks: got %q, want %q", got, want)
	}
	if got := inline(text); !slices.Equal(got, []string{"holdfast three", "df"}) {
		t.Errorf("commands: got %q", got)
	}
}
