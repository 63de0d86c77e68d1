package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/test/sim/check"
)

// TestGuaranteesNameWhatProvesThem: the tests, checks and bugs of docs/guarantees.md are there, and no check is left
// out.
func TestGuaranteesNameWhatProvesThem(t *testing.T) {
	document, err := os.ReadFile("../../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(document), "## What proves each")
	if !found {
		t.Fatal("there is no table of what proves each guarantee")
	}
	tests := testsOfTheModule(t)
	checks := append(check.Names(), check.RareNames()...)
	unnamed := slices.Clone(checks)
	named := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 || strings.Contains(cells[1], "---") || cells[2] == " checks " {
			continue
		}
		for _, name := range quoted(cells[2]) {
			if named++; !slices.Contains(checks, name) {
				t.Errorf("%q is no check of test/sim/check", name)
			}
			unnamed = slices.DeleteFunc(unnamed, func(one string) bool { return one == name })
		}
		for _, name := range quoted(cells[3]) {
			if named++; !slices.Contains(tests, name) {
				t.Errorf("%s is no test", name)
			}
		}
		for _, name := range quoted(cells[4]) {
			named++
			if _, err := os.Stat(filepath.Join("bugs", name+".patch")); err != nil {
				t.Errorf("planted bug: %v", err)
			}
		}
	}
	if len(unnamed) > 0 {
		t.Errorf("no guarantee names the checks %q", unnamed)
	}
	if named < 60 {
		t.Errorf("only %d names were found in the table", named)
	}
}

// TestTestingNamesWhatIsThere: the tests and bugs that docs/testing.md says keep what was found from coming back are
// there.
func TestTestingNamesWhatIsThere(t *testing.T) {
	document, err := os.ReadFile("../../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(document), "kept from coming back by |")
	if !found {
		t.Fatal("there is no table of what was found")
	}
	tests := testsOfTheModule(t)
	named := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		bug := strings.Contains(cells[3], "planted bug")
		for _, name := range quoted(cells[3]) {
			_, missing := os.Stat(filepath.Join("bugs", name+".patch"))
			_, noPackage := os.Stat(filepath.Join("..", "..", name))
			if named++; !slices.Contains(tests, name) && (!bug || missing != nil) && noPackage != nil {
				t.Errorf("%s is neither a test, nor a planted bug, nor a package", name)
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d names were found in the table", named)
	}
}

// TestGoInDocumentsIsRun: the Go that documents show is in tests, which compile it, and run all but the README's.
func TestGoInDocumentsIsRun(t *testing.T) {
	for _, d := range []struct {
		document, tests string
		parts           int
	}{
		{"docs/building.md", "test/building/building_test.go", 9},
		{"README.md", "client/example_test.go", 1},
	} {
		tests, code := flatFile(t, d.tests), 0
		for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(flatFile(t, d.document),
			-1) {
			for part := range strings.SplitSeq(strings.TrimSpace(block[1]), "\n\n") {
				if code++; !strings.Contains(tests, part+"\n") {
					t.Errorf("%s: this is not in %s:\n%s", d.document, d.tests, part)
				}
			}
		}
		if code < d.parts {
			t.Errorf("%s: %d parts of Go were found, want %d at least", d.document, code, d.parts)
		}
	}
}

// flatFile returns a file of the repository without what indents its lines.
func flatFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(string(b), "")
}

func quoted(text string) []string {
	var names []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

func testsOfTheModule(t *testing.T) []string {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	var tests []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2, d.IsDir() && d.Name() == "bin":
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(b, -1) {
			tests = append(tests, string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
