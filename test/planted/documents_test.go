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

// TestGuaranteesNameWhatProvesThem checks that the tests and checks named in docs/guarantees.md exist, and that it names
// all checks: "I1" stands for "I1 touch" and all other checks whose first word is I1.
func TestGuaranteesNameWhatProvesThem(t *testing.T) {
	document, err := os.ReadFile("../../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(document), "## What proves each")
	if !found {
		t.Fatal("docs/guarantees.md: the table of proofs is missing")
	}
	tests := testsOfTheModule(t)
	checks := append(check.Names(), check.RareNames()...)
	unnamed := slices.Clone(checks)
	named := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || strings.Contains(cells[1], "---") || cells[2] == " checks " {
			continue
		}
		for _, name := range quoted(cells[2]) {
			ofName := func(one string) bool { return one == name || strings.HasPrefix(one, name+" ") }
			if named++; !slices.ContainsFunc(checks, ofName) {
				t.Errorf("docs/guarantees.md names %q: no such check in test/sim/check", name)
			}
			unnamed = slices.DeleteFunc(unnamed, ofName)
		}
		for _, name := range quoted(cells[3]) {
			if named++; !slices.Contains(tests, name) {
				t.Errorf("docs/guarantees.md names %s: no such test", name)
			}
		}
	}
	if len(unnamed) > 0 {
		t.Errorf("docs/guarantees.md does not name the checks %q", unnamed)
	}
	if named < 60 {
		t.Errorf("docs/guarantees.md: only %d names were found in the table", named)
	}
}

// TestGoInDocumentsIsRun checks that the Go code in documents is also in tests. The tests compile it, and run all of it
// except the README's.
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
					t.Errorf("%s: this code is not in %s:\n%s", d.document, d.tests, part)
				}
			}
		}
		if code < d.parts {
			t.Errorf("%s: found %d parts of Go, want at least %d", d.document, code, d.parts)
		}
	}
}

// flatFile returns a file of the repository without indentation.
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
	tests, err := testsBelow("../..")
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// testsBelow returns the names of the tests in a directory and below it.
func testsBelow(directory string) ([]string, error) {
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	var tests []string
	err := filepath.WalkDir(directory, func(path string, d fs.DirEntry, err error) error {
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
	return tests, err
}
